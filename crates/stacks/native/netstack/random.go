// The random numbers of a host, from a seed.
package main

import (
	"math/rand"
	"sync"
)

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
