// Package segments handles the segments of a TCP endpoint at once, in the caller's goroutine.
//
// netstack hands a segment to one of its goroutines, and has no other way in. A change of goroutine in a call from C is a change of thread: it
// costs more than all else that happens to a segment. But an endpoint that is locked by its user keeps its segments in a queue. Here the queue
// is worked through with the method that netstack's goroutine calls (dispatcher.go, handleConnected), while the endpoint is locked.
package segments

import (
	_ "unsafe" // For go:linkname.

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

//go:linkname handleSegmentsLocked gvisor.dev/gvisor/pkg/tcpip/transport/tcp.(*Endpoint).handleSegmentsLocked
func handleSegmentsLocked(endpoint *tcp.Endpoint) tcpip.Error

//go:linkname resetConnectionLocked gvisor.dev/gvisor/pkg/tcpip/transport/tcp.(*Endpoint).resetConnectionLocked
func resetConnectionLocked(endpoint *tcp.Endpoint, err tcpip.Error)

// Handle calls `deliver`, which brings segments for an established connection that are neither SYN, FIN nor RST, and handles them.
func Handle(endpoint *tcp.Endpoint, deliver func()) {
	endpoint.LockUser()
	defer endpoint.UnlockUser()
	deliver()
	if err := handleSegmentsLocked(endpoint); err != nil {
		resetConnectionLocked(endpoint, err)
	}
}
