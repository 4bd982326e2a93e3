package proc

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestAPortIsFreeAndNoneThatTheSystemGivesOut(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	if last := lowest + count - 1; last >= first {
		t.Errorf("ports up to %d: the system gives out those from %d", last, first)
	}
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestAPortThatIsInUseIsNotFree(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, address := range []string{tcp.Addr().String(), udp.LocalAddr().String()} {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := strconv.Atoi(port); free("127.0.0.1", n) {
			t.Errorf("%s is in use, and free", address)
		}
	}
}

// One server has several ports: with two equal ones it would fail.
func TestNoPortIsGivenOutTwice(t *testing.T) {
	port, err := FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if reserve(port) {
		t.Errorf("%d is given out twice", port)
	}
}
