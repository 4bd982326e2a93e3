//go:build linux

package ha

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of an account: at most racerInstances live allocations, each known by the number of
// its request.

// wish is what was asked for.
type wish struct {
	account int
	kind    kind
	number  int32
}

type kind int

const (
	take  kind = iota // allocate, without waiting
	give              // release
	see               // read one allocation
	count             // read the account
)

// answer is what was said.
type answer struct {
	ok   bool // take: granted. see: it lives
	held int  // count
}

// account is the numbers of the live allocations, in order, zeros first.
type account [racerInstances]int32

func (a account) holds(number int32) bool { return number != 0 && slices.Contains(a[:], number) }

func (a account) held() int {
	n := 0
	for _, number := range a {
		if number != 0 {
			n++
		}
	}
	return n
}

// changed puts a number in the place of another.
func (a account) changed(from, to int32) account {
	a[slices.Index(a[:], from)] = to
	slices.Sort(a[:])
	return a
}

// accounts is what a history is checked against: every account by itself.
func accounts() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[int][]porcupine.Operation{}
			for _, operation := range history {
				of := operation.Input.(wish).account //nolint:errcheck // it is nothing else
				parts[of] = append(parts[of], operation)
			}
			var list [][]porcupine.Operation
			for _, part := range parts {
				list = append(list, part)
			}
			return list
		},
		Init: func() any { return account{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(account).step(input.(wish), output.(answer)) //nolint:errcheck // they are nothing else
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v %+v", input, output) },
	}
}

// step says whether the answer is right for what was asked, and what the account is afterwards.
func (a account) step(what wish, got answer) (bool, any) {
	full, there := a.held() == len(a), a.holds(what.number)
	switch what.kind {
	case take:
		switch {
		case there:
			return got.ok, a
		case full:
			return !got.ok, a
		case got.ok:
			return true, a.changed(0, what.number)
		}
		return false, a // refused, while there was room
	case give:
		if there {
			return true, a.changed(what.number, 0)
		}
		return true, a
	case see:
		return got.ok == there, a
	case count:
		return got.held == a.held(), a
	}
	return false, a
}

// linearizable checks a history. If it cannot be decided in the time, that is a failure, too.
func linearizable(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(accounts(), history, 30*time.Second)
}

// TestHistoriesThatAreWrongAreFound: the checker can fail.
func TestHistoriesThatAreWrongAreFound(t *testing.T) {
	at := func(call, ret int64, kind kind, number int32, got answer) porcupine.Operation {
		return porcupine.Operation{Input: wish{kind: kind, number: number}, Call: call, Return: ret, Output: got}
	}
	yes, no := answer{ok: true}, answer{}
	full := []porcupine.Operation{at(1, 2, take, 1, yes), at(3, 4, take, 2, yes), at(5, 6, take, 3, yes)}
	for _, test := range []struct {
		name string
		then []porcupine.Operation
		want porcupine.CheckResult
	}{
		{"refused when it was full", []porcupine.Operation{at(7, 8, take, 4, no), at(9, 10, count, 0, answer{held: 3})}, porcupine.Ok},
		{"granted beyond the limit", []porcupine.Operation{at(7, 8, take, 4, yes)}, porcupine.Illegal},
		{"granted while another gives back", []porcupine.Operation{at(7, 9, give, 1, yes), at(8, 10, take, 4, yes)}, porcupine.Ok},
		{"refused when there was room", []porcupine.Operation{at(7, 8, give, 1, yes), at(9, 10, take, 4, no)}, porcupine.Illegal},
		{"a grant that got lost", []porcupine.Operation{at(7, 8, see, 1, no)}, porcupine.Illegal},
		{"a read from the past", []porcupine.Operation{at(7, 8, give, 1, yes), at(9, 10, see, 1, yes)}, porcupine.Illegal},
		{"a count from the past", []porcupine.Operation{at(7, 8, give, 1, yes), at(9, 10, count, 0, answer{held: 3})}, porcupine.Illegal},
		{"the same request twice", []porcupine.Operation{at(7, 8, take, 3, yes), at(9, 10, count, 0, answer{held: 3})}, porcupine.Ok},
		{"counted twice", []porcupine.Operation{at(7, 8, give, 1, yes), at(9, 10, take, 3, yes), at(11, 12, count, 0, answer{held: 3})}, porcupine.Illegal},
		{
			"answered late, in effect when another gave back",
			[]porcupine.Operation{at(7, 30, take, 4, yes), at(8, 9, take, 5, no), at(10, 11, give, 1, yes), at(12, 13, count, 0, answer{held: 3})},
			porcupine.Ok,
		},
		{
			"answered late, in effect in the end",
			[]porcupine.Operation{at(7, 30, take, 4, yes), at(10, 11, give, 1, yes), at(12, 13, count, 0, answer{held: 2})},
			porcupine.Ok,
		},
		{
			"in effect before it was asked for",
			[]porcupine.Operation{at(7, 8, give, 1, yes), at(9, 10, count, 0, answer{held: 3}), at(11, 30, take, 4, yes)},
			porcupine.Illegal,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := linearizable(slices.Concat(full, test.then)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
