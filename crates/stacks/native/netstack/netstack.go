// gVisor's netstack as a stack of Warpline.
//
// All hosts of a process are here. A host has its own clock, which stands still between calls; its timers are in a heap, those of one instant in the order in
// which they were set. netstack hands segments to goroutines: after each step we wait until they have nothing left to do (Pause and Resume), so that
// nothing happens between calls, and the order of what happens is the same each time.
package main

// #include <stdint.h>
// #include "../warpline_stack.h"
// struct told { int event; uint64_t socket; uint16_t port; struct warpline_address remote; };
import "C"

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"io"
	"math/rand"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nic     = 1
	backlog = 256
	// No value, or no deadline.
	none = ^uint64(0)
)

// ---- The clock ----

type timer struct {
	clock *clock
	run   func()
	at    int64
	order uint64
	place int // In the heap; -1 if it is not set.
}

type timers []*timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].order < t[j].order
}
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}
func (t *timers) Push(x any) {
	own := x.(*timer)
	own.place = len(*t)
	*t = append(*t, own)
}
func (t *timers) Pop() any {
	last := len(*t) - 1
	own := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	own.place = -1
	return own
}

// Goroutines of the stack set timers, so it is locked.
type clock struct {
	lock   sync.Mutex
	now    int64
	orders uint64
	timers timers
}

// The epoch is not zero, which netstack takes for "never".
func (c *clock) Now() time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	return time.Unix(1_000_000_000, c.now)
}

func (c *clock) NowMonotonic() tcpip.MonotonicTime {
	c.lock.Lock()
	defer c.lock.Unlock()
	var zero tcpip.MonotonicTime
	return zero.Add(time.Second + time.Duration(c.now))
}

func (c *clock) AfterFunc(wait time.Duration, run func()) tcpip.Timer {
	own := &timer{clock: c, run: run, place: -1}
	own.Reset(wait)
	return own
}

func (t *timer) Stop() bool {
	t.clock.lock.Lock()
	defer t.clock.lock.Unlock()
	if t.place < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.place)
	return true
}

func (t *timer) Reset(wait time.Duration) {
	c := t.clock
	c.lock.Lock()
	defer c.lock.Unlock()
	if t.place >= 0 {
		heap.Remove(&c.timers, t.place)
	}
	t.at = c.now + max(int64(wait), 0)
	c.orders++
	t.order = c.orders
	heap.Push(&c.timers, t)
}

// The next timer that is due by now, removed.
func (c *clock) due(now int64) *timer {
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.timers) == 0 || c.timers[0].at > now {
		return nil
	}
	c.now = max(c.now, c.timers[0].at)
	return heap.Pop(&c.timers).(*timer)
}

func (c *clock) advance(now int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.now = max(c.now, now)
}

func (c *clock) next() uint64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.timers) == 0 {
		return none
	}
	return uint64(c.timers[0].at)
}

// ---- Randomness ----

type source struct {
	lock sync.Mutex
	own  rand.Source64
}

func (s *source) Int63() int64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.own.Int63()
}

func (s *source) Uint64() uint64 {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.own.Uint64()
}

func (s *source) Seed(seed int64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.own.Seed(seed)
}

type reader struct{ source *source }

func (r reader) Read(bytes []byte) (int, error) {
	for i := range bytes {
		bytes[i] = byte(r.source.Uint64())
	}
	return len(bytes), nil
}

func newSource(seed uint64) *source {
	return &source{own: rand.NewSource(int64(seed)).(rand.Source64)}
}

// ---- The network ----

type link struct {
	lock       sync.Mutex
	dispatcher stack.NetworkDispatcher
	mtu        uint32
	packets    []*stack.PacketBuffer
}

func (l *link) MTU() uint32                                  { return l.mtu }
func (l *link) SetMTU(mtu uint32)                            { l.mtu = mtu }
func (l *link) MaxHeaderLength() uint16                      { return 0 }
func (l *link) LinkAddress() tcpip.LinkAddress               { return "" }
func (l *link) SetLinkAddress(tcpip.LinkAddress)             {}
func (l *link) Capabilities() stack.LinkEndpointCapabilities { return 0 }
func (l *link) Attach(d stack.NetworkDispatcher)             { l.dispatcher = d }
func (l *link) IsAttached() bool                             { return l.dispatcher != nil }
func (l *link) Wait()                                        {}
func (l *link) ARPHardwareType() header.ARPHardwareType      { return header.ARPHardwareNone }
func (l *link) AddHeader(*stack.PacketBuffer)                {}
func (l *link) ParseHeader(*stack.PacketBuffer) bool         { return true }
func (l *link) Close()                                       {}
func (l *link) SetOnCloseAction(func())                      {}
func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, packet := range list.AsSlice() {
		l.packets = append(l.packets, packet.IncRef())
	}
	return list.Len(), nil
}

// ---- Hosts and their sockets ----

// The ends of a connection, as segments name them.
type ends struct {
	local, remote uint16
	ip            uint32
}

type socket struct {
	id       uint64
	endpoint tcpip.Endpoint
	queue    *waiter.Queue
	ends     ends
	written          uint64
	told             uint64
	open             bool
	finished, closed bool
}

// The first sequence number of a connection, and the highest acknowledgement: netstack does not tell how much was acknowledged.
type sequence struct{ first, highest uint32 }

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

// Runs the timers that are due, and notes what has changed.
func (h *host) run(now uint64) {
	for {
		due := h.clock.due(int64(now))
		if due == nil {
			break
		}
		due.run()
		h.settle()
	}
	h.clock.advance(int64(now))
}

func (h *host) tell(event C.int, id uint64) {
	h.events = append(h.events, C.struct_told{event: event, socket: C.uint64_t(id)})
}

// Follows the sequence numbers of a segment. `sent` says whether this host has sent it.
func (h *host) follow(packet []byte, sent bool) {
	ip := header.IPv4(packet)
	if len(packet) < header.IPv4MinimumSize || ip.Protocol() != uint8(header.TCPProtocolNumber) || len(packet) < int(ip.HeaderLength())+header.TCPMinimumSize {
		return
	}
	segment := header.TCP(packet[ip.HeaderLength():])
	own := ends{segment.DestinationPort(), segment.SourcePort(), word(ip.SourceAddress())}
	if sent {
		own = ends{segment.SourcePort(), segment.DestinationPort(), word(ip.DestinationAddress())}
	}
	flags := segment.Flags()
	if !sent && flags&header.TCPFlagAck == 0 || sent && flags&header.TCPFlagSyn == 0 {
		return
	}
	known := h.sequences[own]
	if sent {
		h.sequences[own] = sequence{first: segment.SequenceNumber(), highest: segment.SequenceNumber()}
	} else if int32(segment.AckNumber()-known.highest) > 0 {
		known.highest = segment.AckNumber()
		h.sequences[own] = known
	}
}

func word(address tcpip.Address) uint32 {
	bytes := address.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// Bytes of a socket that the other end has acknowledged.
func (h *host) acked(own *socket) uint64 {
	known := h.sequences[own.ends]
	// The SYN takes a number, and the FIN, too.
	return min(uint64(max(int32(known.highest-known.first)-1, 0)), own.written)
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
	delete(h.sequences, own.ends)
}

func (h *host) add(endpoint tcpip.Endpoint, queue *waiter.Queue, between ends) *socket {
	h.last++
	own := &socket{id: h.last, endpoint: endpoint, queue: queue, ends: between}
	h.sockets = append(h.sockets, own)
	return own
}

func (h *host) socket(id C.uint64_t) *socket {
	for _, own := range h.sockets {
		if own.id == uint64(id) {
			return own
		}
	}
	return nil
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

// ---- What glue.c calls, for the functions of warpline_stack.h ----

//export netstack_new
func netstack_new(seed C.uint64_t, seed2 C.uint64_t, ip C.uint32_t, mtu C.uint32_t, send C.uint64_t, receive C.uint64_t) C.uint64_t {
	own := &host{clock: &clock{}, link: &link{mtu: uint32(mtu)}, sequences: map[ends]sequence{}}
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
			return &tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: size, Max: size}
		}},
		{receive, func(size int) tcpip.SettableTransportProtocolOption {
			return &tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: size, Max: size}
		}},
	}
	cubic := tcpip.CongestionControlOption("cubic")
	own.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &cubic)
	sack := tcpip.TCPSACKEnabled(true)
	own.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	for _, size := range sizes {
		if size.given > 0 {
			own.stack.SetTransportProtocolOption(tcp.ProtocolNumber, size.option(int(size.given)))
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
	own.follow(bytes, false)
	arrived := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(bytes)})
	own.link.dispatcher.DeliverNetworkPacket(header.IPv4ProtocolNumber, arrived)
	arrived.DecRef()
	own.settle()
	own.look()
}

//export netstack_timeout
func netstack_timeout(number C.uint64_t, now C.uint64_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
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
		own.follow(bytes, true)
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
	to := own.socket(id)
	if to == nil || to.closed {
		return 0
	}
	count, err := to.endpoint.Write(bytes.NewReader(unsafe.Slice((*byte)(from), int(length))), tcpip.WriteOptions{})
	if err != nil {
		return 0
	}
	to.written += uint64(count)
	own.settle()
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
	from := own.socket(id)
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
	own.settle()
	return C.size_t(result.Count)
}

//export netstack_close
func netstack_close(number C.uint64_t, now C.uint64_t, id C.uint64_t) {
	own := find(number)
	own.lock.Lock()
	defer own.lock.Unlock()
	own.run(uint64(now))
	if to := own.socket(id); to != nil && !to.closed {
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
			delete(own.sequences, to.ends)
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
	from := own.socket(id)
	if from == nil {
		return C.WARPLINE_FAILED
	}
	unknown := C.uint64_t(none)
	*info = C.struct_warpline_info{acked: C.uint64_t(own.acked(from)), cwnd: unknown, ssthresh: unknown, srtt: unknown, in_flight: unknown}
	return 0
}

func main() {}
