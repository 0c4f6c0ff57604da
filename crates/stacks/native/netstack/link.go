// The network of a host: keeps what the stack sends until it is taken.
package main

import (
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

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
