//go:build linux

package netlab

import (
	"fmt"
	"net"
)

// nowhere is the hardware address of no node: packets to it reach nobody. Every node has a fixed
// list of the others' hardware addresses and asks nobody for them. So a cut is a wrong entry in
// that list: open connections and new ones fall silent, and no error comes back.
func nowhere() net.HardwareAddr { return net.HardwareAddr{2, 0x77, 0xff, 0, 0, 0xff} }

// Cut makes everything vanish that two nodes send to each other.
func (l *Lab) Cut(a, b *Node) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cut(a, b)
}

func cut(a, b *Node) error {
	if err := know(a, b, nowhere()); err != nil {
		return err
	}
	return know(b, a, nowhere())
}

// CutAll makes everything vanish between a node and all others but some.
func (l *Lab) CutAll(a *Node, but ...*Node) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	spared := map[*Node]bool{a: true}
	for _, n := range but {
		spared[n] = true
	}
	for _, b := range l.nodes {
		if spared[b] {
			continue
		}
		if err := cut(a, b); err != nil {
			return err
		}
	}
	return nil
}

// Unplug pulls a node's wire out of the bridge: the same, and the node's kernel can see it.
func (l *Lab) Unplug(n *Node) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unplugged[n] = true
	return Do(l.Here, func() error { return setDown(n.port) })
}

// Heal mends every wire.
func (l *Lab) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.unplugged {
		if err := Do(l.Here, func() error { return setUp(n.port) }); err != nil {
			return err
		}
		delete(l.unplugged, n)
	}
	for _, a := range l.nodes {
		for _, b := range l.nodes {
			if a == b {
				continue
			}
			if err := know(a, b, b.mac); err != nil {
				return err
			}
		}
	}
	return nil
}

// know adds the address of b to the list of a.
func know(a, b *Node, mac net.HardwareAddr) error {
	device := wireName
	if a == a.lab.Here {
		device = fmt.Sprintf("lab%d", a.mac[3])
	}
	if err := Do(a, func() error { return setNeighbor(device, b.Address, mac) }); err != nil {
		return fmt.Errorf("netlab: %s and %s: %w", a.Name, b.Name, err)
	}
	return nil
}
