// Hosts and their sockets: what has changed since the last call.
package main

// #include <stdint.h>
// #include "../warpline_stack.h"
// struct told { int event; uint64_t socket; uint16_t port; struct warpline_address remote; };
import "C"

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nic     = 1
	backlog = 256
	// No value, or no deadline.
	none = ^uint64(0)
)

// The ends of a connection, as segments name them.
type ends struct {
	local, remote uint16
	ip            uint32
}

type socket struct {
	id               uint64
	endpoint         tcpip.Endpoint
	queue            *waiter.Queue
	ends             ends
	written          uint64
	told             uint64
	open             bool
	finished, closed bool
}

// The highest acknowledgement of a connection, and how many sequence numbers that is after the first one: netstack does not tell how much was
// acknowledged.
type sequence struct {
	highest uint32
	acked   uint64
}

type listener struct {
	endpoint tcpip.Endpoint
	queue    *waiter.Queue
	port     uint16
	cc       string
}

type host struct {
	lock      sync.Mutex
	stack     *stack.Stack
	clock     *clock
	link      *link
	listeners []*listener
	sockets   []*socket
	byID      map[uint64]*socket
	byEnds    map[ends]*socket
	sequences map[ends]sequence
	last      uint64
	events    []C.struct_told
}

var (
	hostsLock sync.Mutex
	hosts     = map[uint64]*host{}
	lastHost  uint64
)

func find(number C.uint64_t) *host {
	hostsLock.Lock()
	defer hostsLock.Unlock()
	return hosts[uint64(number)]
}

func init() {
	// One step at a time.
	runtime.GOMAXPROCS(1)
}

// Waits until the goroutines of the stack have nothing left to do.
func (h *host) settle() {
	h.stack.Pause()
	h.stack.Resume()
}

// Runs the timers that are due. Returns whether there were any.
func (h *host) expire(now uint64) bool {
	expired := false
	for {
		due := h.clock.due(int64(now))
		if due == nil {
			break
		}
		due.run()
		h.settle()
		expired = true
	}
	h.clock.advance(int64(now))
	return expired
}

// Runs the timers that are due, and notes what they have changed.
func (h *host) run(now uint64) {
	if h.expire(now) {
		h.look()
	}
}

func (h *host) tell(event C.int, id uint64) {
	h.events = append(h.events, C.struct_told{event: event, socket: C.uint64_t(id)})
}

// The ends of the connection to which a packet belongs, and its segment; false if there is none. `sent` says whether this host has sent it.
func segmentOf(packet []byte, sent bool) (ends, header.TCP, bool) {
	ip := header.IPv4(packet)
	if len(packet) < header.IPv4MinimumSize || ip.Protocol() != uint8(header.TCPProtocolNumber) || len(packet) < int(ip.HeaderLength())+header.TCPMinimumSize {
		return ends{}, nil, false
	}
	segment := header.TCP(packet[ip.HeaderLength():])
	if sent {
		return ends{segment.SourcePort(), segment.DestinationPort(), word(ip.DestinationAddress())}, segment, true
	}
	return ends{segment.DestinationPort(), segment.SourcePort(), word(ip.SourceAddress())}, segment, true
}

// Notes the first sequence number of a connection from a SYN of this host.
func (h *host) followSent(packet []byte) {
	if own, segment, ok := segmentOf(packet, true); ok && segment.Flags()&header.TCPFlagSyn != 0 {
		h.sequences[own] = sequence{highest: segment.SequenceNumber()}
	}
}

// Notes what a segment acknowledges.
func (h *host) followReceived(own ends, segment header.TCP) {
	if segment.Flags()&header.TCPFlagAck == 0 {
		return
	}
	known, there := h.sequences[own]
	if more := int32(segment.AckNumber() - known.highest); there && more > 0 {
		h.sequences[own] = sequence{highest: segment.AckNumber(), acked: known.acked + uint64(more)}
	}
}

// The socket of a segment that can be handled without goroutines, and its endpoint; nil if it cannot. What opens or ends a connection is left to
// netstack's goroutine.
func (h *host) simple(own ends, segment header.TCP) (*socket, *tcp.Endpoint) {
	to := h.byEnds[own]
	if to == nil || segment.Flags()&(header.TCPFlagSyn|header.TCPFlagFin|header.TCPFlagRst) != 0 {
		return nil, nil
	}
	endpoint, ok := to.endpoint.(*tcp.Endpoint)
	if !ok || endpoint.EndpointState() != tcp.StateEstablished {
		return nil, nil
	}
	return to, endpoint
}

func word(address tcpip.Address) uint32 {
	bytes := address.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// Bytes of a socket that the other end has acknowledged.
func (h *host) acked(own *socket) uint64 {
	acked := h.sequences[own.ends].acked
	// The SYN takes a number, and the FIN, too.
	return min(max(acked, 1)-1, own.written)
}

// Notes what has changed since the last time.
func (h *host) look() {
	for _, listener := range h.listeners {
		for {
			var remote tcpip.FullAddress
			endpoint, queue, err := listener.endpoint.Accept(&remote)
			if err != nil {
				break
			}
			setCongestionControl(endpoint, listener.cc)
			own := h.add(endpoint, queue, ends{listener.port, remote.Port, word(remote.Addr)})
			own.open = true
			told := C.struct_told{event: C.WARPLINE_ACCEPTED, socket: C.uint64_t(own.id), port: C.uint16_t(listener.port)}
			told.remote.ip = network(remote.Addr)
			told.remote.port = C.uint16_t(remote.Port)
			h.events = append(h.events, told)
		}
	}
	kept := h.sockets[:0]
	for _, own := range h.sockets {
		if h.lookAt(own) {
			kept = append(kept, own)
		}
	}
	clear(h.sockets[len(kept):])
	h.sockets = kept
}

// Notes what has changed of one socket.
func (h *host) lookAtOne(own *socket) {
	if !h.lookAt(own) {
		h.sockets = slices.DeleteFunc(h.sockets, func(other *socket) bool { return other == own })
	}
}

// Notes what has changed of a socket. Returns whether it is still there.
func (h *host) lookAt(own *socket) bool {
	state := tcp.EndpointState(own.endpoint.State())
	if !own.open && state == tcp.StateEstablished {
		own.open = true
		h.tell(C.WARPLINE_CONNECTED, own.id)
	}
	ready := own.endpoint.Readiness(waiter.EventIn)
	if own.open && ready&waiter.EventIn != 0 && !own.finished {
		h.tell(C.WARPLINE_READABLE, own.id)
	}
	if acked := h.acked(own); acked > own.told {
		own.told = acked
		h.tell(C.WARPLINE_WRITABLE, own.id)
	}
	event := C.int(0)
	switch state {
	case tcp.StateError:
		event = C.WARPLINE_RESET
		switch own.endpoint.LastError().(type) {
		case *tcpip.ErrTimeout, *tcpip.ErrHostUnreachable, *tcpip.ErrNetworkUnreachable:
			event = C.WARPLINE_TIMED_OUT
		}
	case tcp.StateClose, tcp.StateTimeWait, tcp.StateFinWait2:
		// A FIN that is sent again from LAST-ACK takes netstack to FIN-WAIT-1, and its acknowledgement to FIN-WAIT-2 (snd.go,
		// maybeSendSegment), from which nothing leads out.
		if own.finished && own.closed {
			event = C.WARPLINE_COMPLETE
		}
	}
	if event == 0 {
		return true
	}
	h.forget(own)
	h.tell(event, own.id)
	return false
}

func (h *host) forget(own *socket) {
	own.endpoint.Close()
	h.remove(own)
}

// Forgets all of a socket but its place in `sockets`.
func (h *host) remove(own *socket) {
	delete(h.byID, own.id)
	delete(h.byEnds, own.ends)
	delete(h.sequences, own.ends)
}

func (h *host) add(endpoint tcpip.Endpoint, queue *waiter.Queue, between ends) *socket {
	h.last++
	own := &socket{id: h.last, endpoint: endpoint, queue: queue, ends: between}
	h.sockets = append(h.sockets, own)
	h.byID[own.id] = own
	h.byEnds[between] = own
	return own
}

// An address in network byte order.
func network(address tcpip.Address) C.uint32_t {
	bytes := address.As4()
	return C.uint32_t(binary.NativeEndian.Uint32(bytes[:]))
}

func address(ip C.uint32_t) tcpip.Address {
	var bytes [4]byte
	binary.NativeEndian.PutUint32(bytes[:], uint32(ip))
	return tcpip.AddrFrom4(bytes)
}

// Sets the congestion control of a socket; "" leaves it. Returns whether it is known.
func setCongestionControl(endpoint tcpip.Endpoint, name string) bool {
	if name == "" {
		return true
	}
	option := tcpip.CongestionControlOption(name)
	return endpoint.SetSockOpt(&option) == nil
}
