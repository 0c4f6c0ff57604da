// gVisor's netstack as a stack of Warpline: the functions that glue.c calls for those of warpline_stack.h.
//
// All hosts of a process are here. netstack hands segments to goroutines. Segments of open connections are handled without them (package segments).
// After every other step we wait until the goroutines have nothing left to do (Pause and Resume). So nothing happens between calls, and the
// order of what happens is the same each time.
package main

// #include <stdint.h>
// #include "../warpline_stack.h"
// struct told { int event; uint64_t socket; uint16_t port; struct warpline_address remote; };
import "C"

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"unsafe"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"warpline/netstack/segments"
)

//export netstack_new
func netstack_new(seed C.uint64_t, seed2 C.uint64_t, ip C.uint32_t, mtu C.uint32_t, send C.uint64_t, receive C.uint64_t) C.uint64_t {
	own := &host{clock: &clock{}, link: &link{mtu: uint32(mtu)}, sequences: map[ends]sequence{}, byID: map[uint64]*socket{}, byEnds: map[ends]*socket{}}
	own.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, icmp.NewProtocol4},
		Clock:              own.clock,
		RandSource:         newSource(uint64(seed)),
		SecureRNG:          reader{newSource(uint64(seed2))},
	})
	sizes := []struct {
		given  C.uint64_t
		option func(size int) tcpip.SettableTransportProtocolOption
	}{
		{send, func(size int) tcpip.SettableTransportProtocolOption {
			return &tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: size, Max: size}
		}},
		{receive, func(size int) tcpip.SettableTransportProtocolOption {
			return &tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: size, Max: size}
		}},
	}
	sack := tcpip.TCPSACKEnabled(true)
	own.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	for _, size := range sizes {
		if size.given > 0 && own.stack.SetTransportProtocolOption(tcp.ProtocolNumber, size.option(int(size.given))) != nil {
			return 0
		}
	}
	if own.stack.CreateNIC(nic, own.link) != nil {
		return 0
	}
	protocol := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: address(ip).WithPrefix()}
	if own.stack.AddProtocolAddress(nic, protocol, stack.AddressProperties{}) != nil {
		return 0
	}
	own.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	own.settle()
	hostsLock.Lock()
	defer hostsLock.Unlock()
	lastHost++
	hosts[lastHost] = own
	return C.uint64_t(lastHost)
}

//export netstack_free
func netstack_free(number C.uint64_t) {
	own := find(number)
	if own == nil {
		return
	}
	hostsLock.Lock()
	delete(hosts, uint64(number))
	hostsLock.Unlock()
	own.lock.Lock()
	defer own.lock.Unlock()
	own.stack.Destroy()
}

//export netstack_packet
func netstack_packet(number C.uint64_t, now C.uint64_t, packet unsafe.Pointer, length C.size_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	bytes := unsafe.Slice((*byte)(packet), int(length))
	between, segment, ok := segmentOf(bytes, false)
	if ok {
		own.followReceived(between, segment)
	}
	deliver := func() {
		arrived := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(bytes)})
		own.link.dispatcher.DeliverNetworkPacket(header.IPv4ProtocolNumber, arrived)
		arrived.DecRef()
	}
	if to, endpoint := own.simple(between, segment); ok && to != nil {
		segments.Handle(endpoint, deliver)
		own.lookAtOne(to)
		return
	}
	deliver()
	own.settle()
	own.look()
}

//export netstack_timeout
func netstack_timeout(number C.uint64_t, now C.uint64_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.expire(uint64(now))
	own.look()
}

//export netstack_deadline
func netstack_deadline(number C.uint64_t) C.uint64_t {
	return C.uint64_t(find(number).clock.next())
}

// Writes packets into `out`, each after its length in two bytes, as many as fit. Returns the bytes written.
//
//export netstack_packets
func netstack_packets(number C.uint64_t, out unsafe.Pointer, room C.size_t) C.size_t {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.link.lock.Lock()
	defer own.link.lock.Unlock()
	target, used, done := unsafe.Slice((*byte)(out), int(room)), 0, 0
	for _, packet := range own.link.packets {
		view := packet.ToView()
		bytes := view.AsSlice()
		if used+2+len(bytes) > len(target) {
			view.Release()
			break
		}
		binary.NativeEndian.PutUint16(target[used:], uint16(len(bytes)))
		copy(target[used+2:], bytes)
		own.followSent(bytes)
		used += 2 + len(bytes)
		done++
		view.Release()
		packet.DecRef()
	}
	left := copy(own.link.packets, own.link.packets[done:])
	clear(own.link.packets[left:])
	own.link.packets = own.link.packets[:left]
	return C.size_t(used)
}

// Takes an event. Returns whether there was one.
//
//export netstack_event
func netstack_event(number C.uint64_t, told *C.struct_told) C.int {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	if len(own.events) == 0 {
		own.events = nil
		return 0
	}
	*told = own.events[0]
	own.events = own.events[1:]
	return 1
}

func (h *host) endpoint(cc string) (tcpip.Endpoint, *waiter.Queue, C.int) {
	queue := new(waiter.Queue)
	endpoint, err := h.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, queue)
	if err != nil {
		return nil, nil, C.WARPLINE_FULL
	}
	if !setCongestionControl(endpoint, cc) {
		endpoint.Close()
		return nil, nil, C.WARPLINE_NO_CC
	}
	return endpoint, queue, 0
}

func name(cc *C.char) string {
	if cc == nil {
		return ""
	}
	return C.GoString(cc)
}

//export netstack_listen
func netstack_listen(number C.uint64_t, now C.uint64_t, port C.uint16_t, cc *C.char) C.int {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	endpoint, queue, code := own.endpoint(name(cc))
	if code != 0 {
		return code
	}
	// Connections of an earlier listener do not keep the port.
	endpoint.SocketOptions().SetReuseAddress(true)
	if endpoint.Bind(tcpip.FullAddress{Port: uint16(port)}) != nil || endpoint.Listen(backlog) != nil {
		endpoint.Close()
		return C.WARPLINE_TAKEN
	}
	own.listeners = append(own.listeners, &listener{endpoint, queue, uint16(port), name(cc)})
	own.settle()
	return 0
}

//export netstack_unlisten
func netstack_unlisten(number C.uint64_t, now C.uint64_t, port C.uint16_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	for place, listener := range own.listeners {
		if listener.port == uint16(port) {
			listener.endpoint.Close()
			own.listeners = append(own.listeners[:place], own.listeners[place+1:]...)
			break
		}
	}
	own.settle()
}

//export netstack_connect
func netstack_connect(number C.uint64_t, now C.uint64_t, ip C.uint32_t, port C.uint16_t, cc *C.char, local *C.struct_warpline_address) C.int64_t {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	endpoint, queue, code := own.endpoint(name(cc))
	if code != 0 {
		return C.int64_t(code)
	}
	to := tcpip.FullAddress{Addr: address(ip), Port: uint16(port)}
	if _, started := endpoint.Connect(to).(*tcpip.ErrConnectStarted); !started {
		endpoint.Close()
		return C.WARPLINE_NO_PORTS
	}
	from, err := endpoint.GetLocalAddress()
	if err != nil {
		endpoint.Close()
		return C.WARPLINE_FAILED
	}
	local.ip, local.port = network(from.Addr), C.uint16_t(from.Port)
	opened := own.add(endpoint, queue, ends{from.Port, to.Port, word(to.Addr)})
	own.settle()
	return C.int64_t(opened.id)
}

//export netstack_write
func netstack_write(number C.uint64_t, now C.uint64_t, id C.uint64_t, from unsafe.Pointer, length C.size_t) C.size_t {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	to := own.byID[uint64(id)]
	if to == nil || to.closed {
		return 0
	}
	count, err := to.endpoint.Write(bytes.NewReader(unsafe.Slice((*byte)(from), int(length))), tcpip.WriteOptions{})
	if err != nil {
		return 0
	}
	to.written += uint64(count)
	return C.size_t(count)
}

// Writes into memory of C.
type writer struct{ room []byte }

func (w *writer) Write(bytes []byte) (int, error) {
	count := copy(w.room, bytes)
	w.room = w.room[count:]
	if count < len(bytes) {
		return count, io.ErrShortWrite
	}
	return count, nil
}

//export netstack_read
func netstack_read(number C.uint64_t, now C.uint64_t, id C.uint64_t, into unsafe.Pointer, length C.size_t) C.size_t {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	from := own.byID[uint64(id)]
	if from == nil || length == 0 {
		return 0
	}
	limited := tcpip.LimitedWriter{W: &writer{unsafe.Slice((*byte)(into), int(length))}, N: int64(length)}
	result, err := from.endpoint.Read(&limited, tcpip.ReadOptions{})
	if _, closed := err.(*tcpip.ErrClosedForReceive); closed && !from.finished {
		// Only reading tells that the other end has closed, whichever end was first.
		from.finished = true
		own.tell(C.WARPLINE_FINISHED, from.id)
		own.look()
	}
	if err != nil {
		return 0
	}
	return C.size_t(result.Count)
}

//export netstack_close
func netstack_close(number C.uint64_t, now C.uint64_t, id C.uint64_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	if to := own.byID[uint64(id)]; to != nil && !to.closed {
		to.closed = true
		to.endpoint.Shutdown(tcpip.ShutdownWrite)
		own.settle()
		own.look()
	}
}

//export netstack_abort
func netstack_abort(number C.uint64_t, now C.uint64_t, id C.uint64_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	for place, to := range own.sockets {
		if to.id == uint64(id) {
			to.endpoint.Abort()
			own.remove(to)
			own.sockets = append(own.sockets[:place], own.sockets[place+1:]...)
			own.tell(C.WARPLINE_ABORTED, to.id)
			break
		}
	}
	own.settle()
}

//export netstack_info
func netstack_info(number C.uint64_t, id C.uint64_t, info *C.struct_warpline_info) C.int {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	from := own.byID[uint64(id)]
	if from == nil {
		return C.WARPLINE_FAILED
	}
	unknown := C.uint64_t(none)
	*info = C.struct_warpline_info{acked: C.uint64_t(own.acked(from)), cwnd: unknown, ssthresh: unknown, srtt: unknown, in_flight: unknown}
	var known tcpip.TCPInfoOption
	if from.open && from.endpoint.GetSockOpt(&known) == nil {
		// netstack counts packets. Each has room for the largest options.
		size := uint64(own.link.mtu) - header.IPv4MinimumSize - header.TCPHeaderMaximumSize
		info.srtt = C.uint64_t(known.RTT)
		info.cwnd = C.uint64_t(uint64(known.SndCwnd) * size)
		if known.SndSsthresh != math.MaxUint32 {
			info.ssthresh = C.uint64_t(uint64(known.SndSsthresh) * size)
		}
	}
	return 0
}

func main() {}
