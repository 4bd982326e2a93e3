package election

import "context"

// Alone is the election of a coordinator without others: it always leads. url is its own address.
func Alone(url func() string) Election { return alone{url} }

type alone struct{ url func() string }

func (alone) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (a alone) Campaign(ctx context.Context) (Term, error) { return forever{}, ctx.Err() }

func (a alone) Leader() (Leader, <-chan struct{}) { return Leader{URL: a.url()}, nil }

// forever is a term that never ends by itself.
type forever struct{}

func (forever) Over() <-chan struct{}                          { return nil }
func (forever) Announce(context.Context, uint64, string) error { return nil }
func (forever) Resign(context.Context) error                   { return nil }
