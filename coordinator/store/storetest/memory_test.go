package storetest_test

import (
	"testing"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		place := storetest.NewMemory("memory")
		return func(*testing.T) store.Store { return place.Open() }
	})
}

func TestMemoryShared(t *testing.T) {
	storetest.RunShared(t, func(*testing.T) storetest.Opener {
		place := storetest.NewMemory("memory")
		return func(*testing.T) store.Store { return place.Open() }
	})
}

func TestFaultyWithoutFaults(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opener {
		place := storetest.NewMemory("memory")
		return func(*testing.T) store.Store { return storetest.NewFaulty(place.Open()) }
	})
}
