package storetest

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/bursar/bursar/coordinator/seal"
)

// Copy returns a place with the same rows. With the same id it is like a backup, with another one
// like a copy that Bursar made.
func (m *Memory) Copy(id string) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMemory(id)
	schema := c.meta.Schema
	c.meta, c.leadership = m.meta, m.leadership
	c.meta.StoreID, c.meta.Schema = id, schema
	c.allocations, c.hosts, c.quotas, c.providers = maps.Clone(m.allocations), maps.Clone(m.hosts), maps.Clone(m.quotas), maps.Clone(m.providers)
	c.refusals, c.changes = maps.Clone(m.refusals), slices.Clone(m.changes)
	return c
}

// Restore restores the place from a backup. Stores that are open there use it from then on, like
// connections to a database that another server has replaced.
func (m *Memory) Restore(backup *Memory) {
	c := backup.Copy(backup.meta.StoreID)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meta, m.leadership, m.allocations, m.hosts, m.quotas, m.providers = c.meta, c.leadership, c.allocations, c.hosts, c.quotas, c.providers
	m.refusals, m.changes = c.refusals, c.changes
}

func sealKeysOf(id string) seal.Keys {
	sum := sha256.Sum256([]byte(id))
	return seal.Keys(sum[:])
}
