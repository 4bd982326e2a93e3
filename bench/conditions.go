package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
)

// conditionKinds are the kinds of requests of the suite conditions: see its workload.
var conditionKinds = [...]string{"plain", "label", "met", "missing", "unmet", "new"}

// conditionsChild is a process with one ledger, and one kind of requests.
type conditionsChild struct {
	filled *filledLedger
	kind   string
}

func (c *conditionsChild) do(_ context.Context, o order) (answer, error) {
	if c.filled == nil {
		return answer{}, c.open(o)
	}
	if o.Pairs == 0 {
		return answer{}, c.filled.audit()
	}
	before, err := cpuTime()
	if err != nil {
		return answer{}, err
	}
	if err := c.ask(o.Pairs); err != nil {
		return answer{}, err
	}
	after, err := cpuTime()
	return answer{CPU: after - before}, err
}

func (c *conditionsChild) open(o order) error {
	w, err := readWorkload(o.Workload)
	if err != nil {
		return err
	}
	c.kind = o.Kind
	wishes, err := conditionWishes(c.kind, 0)
	if err != nil {
		return err
	}
	if c.filled, err = newFilledLedger(w, o.Hosts); err != nil {
		return err
	}
	if c.granted() {
		c.filled.wishes = wishes
	}
	if err := c.filled.fill(o.Live); err != nil {
		return err
	}
	c.filled.wishes = wishes
	runtime.GC()
	return nil
}

// granted reports whether some host meets the wishes of the child.
func (c *conditionsChild) granted() bool {
	return c.kind == "plain" || c.kind == "label" || c.kind == "met"
}

// ask makes n pairs, or n requests that are refused.
func (c *conditionsChild) ask(n int) (err error) {
	b := c.filled
	if c.granted() {
		return b.pairs(n)
	}
	for range n {
		b.now = b.now.Add(pairTime)
		if c.kind == "new" {
			if b.wishes, err = conditionWishes(c.kind, b.next); err != nil {
				return err
			}
		}
		command := b.command()
		_, err := b.ledger.Allocate(b.now, command)
		if refusal, ok := errors.AsType[*ledger.InsufficientError](err); !ok || refusal.Never {
			return fmt.Errorf("request %s: %w: want it refused for now", command.RequestID, err)
		}
		b.done()
	}
	return nil
}

// conditionWishes are the wishes of request number n of a kind.
func conditionWishes(kind string, n int) (*ledger.Wishes, error) {
	rack := ""
	switch kind {
	case "plain":
		return nil, nil //nolint:nilnil // no wishes are nil
	case "label":
		return &ledger.Wishes{Required: label.Of("rack", "7")}, nil
	case "missing":
		return &ledger.Wishes{Required: label.Of("rack", "none")}, nil
	case "met":
		rack = "7,7b"
	case "unmet":
		rack = "none,nowhere"
	case "new":
		rack = "none,x" + strconv.Itoa(n)
	}
	rules, err := label.ParseRules("rack in (" + rack + "),cores>8")
	if err != nil {
		return nil, err
	}
	return &ledger.Wishes{Rules: &ledger.Rules{Required: rules}}, nil
}

// conditionsSuite shows the cost of conditions on labels.
func conditionsSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("conditions")
	if err != nil {
		return err
	}
	var children []*child
	defer func() {
		for _, c := range children {
			err = errors.Join(err, c.stop())
		}
	}()
	programs := []string{""}
	if r.before != "" {
		programs = append(programs, r.before)
	}
	for _, program := range programs {
		for _, kind := range conditionKinds {
			o := order{Workload: "conditions", Hosts: r.size(w.Hosts), Live: r.size(w.Live), Kind: kind}
			c, err := r.startConditions(ctx, program, o)
			if err != nil {
				return err
			}
			children = append(children, c)
		}
	}
	rates, err := takeTurns(children, order{Pairs: r.size(w.Window)}, r.rounds(w.Rounds))
	if err != nil {
		return err
	}
	for _, c := range children {
		if _, err := c.do(order{}); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	plain, byLabel, met, missing, unmet, fresh := rates[0], rates[1], rates[2], rates[3], rates[4], rates[5]
	r.line("conditions/plain", median(plain), "pairs/s", 0)
	r.line("conditions/label", median(byLabel), "pairs/s", median(ratios(byLabel, plain)))
	r.line("conditions/met", median(met), "pairs/s", median(ratios(met, byLabel)))
	r.line("conditions/missing", median(missing), "requests/s", median(ratios(missing, plain)))
	r.line("conditions/unmet", median(unmet), "requests/s", median(ratios(unmet, missing)))
	r.line("conditions/new", median(fresh), "requests/s", median(ratios(fresh, missing)))
	for i, kind := range conditionKinds {
		if r.before != "" {
			old := rates[len(conditionKinds)+i]
			r.line("conditions/"+kind+"-before", median(old), "requests/s", median(ratios(rates[i], old)))
		}
	}
	return nil
}

// startConditions starts a child of this program, or of another version of it.
func (r *run) startConditions(ctx context.Context, program string, o order) (*child, error) {
	if program == "" {
		return r.startChild(ctx, "conditions", o, "GOMAXPROCS=1")
	}
	c, err := r.startChildOf(ctx, program, "conditions", o, "GOMAXPROCS=1")
	if err != nil {
		return nil, fmt.Errorf("-before %s: %w", program, err)
	}
	return c, nil
}
