package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// tool simulates an engine: `inside hold MIB [deaf]` allocates that much memory, prints "holding",
// and keeps it until SIGTERM; deaf, until SIGKILL. `inside spin` keeps one core busy. `inside call`
// and `flood` are in call.go.
func tool(name string, arguments []string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch {
	case name == "hold" && len(arguments) > 0:
		size, err := strconv.Atoi(arguments[0])
		if err != nil {
			return err
		}
		taken := make([][]byte, 0, size)
		for range size {
			taken = append(taken, make([]byte, 1<<20))
			touch(taken[len(taken)-1])
		}
		if len(arguments) > 1 && arguments[1] == "deaf" {
			signal.Ignore(syscall.SIGTERM)
		}
		fmt.Println("holding")
		<-stop
		touch(taken[0])
	case name == "spin":
		end := time.Now().Add(10 * time.Minute)
		rounds := 0
		for time.Now().Before(end) && len(stop) == 0 {
			rounds++
		}
	case name == "call" && len(arguments) == 2:
		return call(arguments[0], arguments[1])
	case name == "flood" && len(arguments) == 2:
		return flood(arguments[0], arguments[1])
	default:
		return errors.New("usage: inside | inside hold MIB [deaf] | inside spin | inside call|flood SOCKET SERVICE/METHOD")
	}
	return nil
}

// touch makes every page of a block resident, with values other than zero: the kernel may share
// pages of zeroes.
func touch(block []byte) {
	for i := 0; i < len(block); i += os.Getpagesize() {
		block[i] = byte(i>>12) | 1
	}
}
