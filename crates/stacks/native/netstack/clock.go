// The clock of a host. It stands still between calls; its timers are in a heap, those of one instant in the order in which they were set.
package main

import (
	"container/heap"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

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
