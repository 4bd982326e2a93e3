package auth

import "testing"

func TestPeersOfThisMachine(t *testing.T) {
	for peer, local := range map[string]bool{
		"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true, "pipe": true, "@": true, "": true,
		"10.0.0.1:5": false, "[2001:db8::1]:5": false, "192.168.1.9:80": false,
	} {
		if isLocal(peer) != local {
			t.Errorf("isLocal(%q) is %v", peer, !local)
		}
	}
}
