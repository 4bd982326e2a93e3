package socket

import (
	"context"
	"testing"

	"github.com/bursar/bursar/providers/host"
)

func TestViewOfACallerIsAskedForAgainAfterAFailure(t *testing.T) {
	asked := 0
	p := &Process{find: func(context.Context) (host.View, error) {
		if asked++; asked == 1 {
			return host.View{}, context.Canceled
		}
		return host.View{OtherTime: true}, nil
	}}
	if _, err := p.Seen(t.Context()); err == nil {
		t.Error("the first time it is not known")
	}
	for range 2 {
		if view, err := p.Seen(t.Context()); err != nil || !view.OtherTime {
			t.Errorf("%+v, %v", view, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
