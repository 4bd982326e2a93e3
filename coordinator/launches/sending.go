package launches

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// outcome is the result of an attempt to send an order.
type outcome int

const (
	sent     outcome = iota
	detached         // the host's agent is not attached
	lacking          // the caller has to bring secrets
	unread           // the store does not answer
)

// launch sends the order of a grant until ctx ends: ctx ends when the allocation is no longer due.
// launch reads the row for each attempt and does not keep it.
func (l *Launcher) launch(ctx context.Context, t *try) {
	a := &t.allocation
	since := time.Now()
	everSent := false
	for {
		result, err := l.order(ctx, a)
		waited := time.Since(since)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.fail(ctx, a, err.Error())
			return
		case result == sent:
			everSent = true
		case result == lacking && !everSent && waited >= secretsPatience:
			l.fail(ctx, a, "its caller, who has the values of its secrets, does not wait for it any more")
			return
		case result == detached && !everSent && waited >= attachPatience:
			l.fail(ctx, a, "its agent takes no orders: it is not connected, or of an older version")
			return
		}
		wait, news := time.Second, t.secrets
		switch {
		case everSent:
			wait, news = orderAgain, nil // the secrets are with the agent
		case result == lacking:
			wait = secretsPatience - waited // news come before
		}
		select {
		case <-ctx.Done():
			return
		case <-t.attached:
		case <-news:
		case <-time.After(wait):
		}
	}
}

// order sends the order of a grant, if the host's agent is attached and all secrets are here. An
// error means that there is no order to send.
func (l *Launcher) order(ctx context.Context, a *ledger.Allocation) (outcome, error) {
	if !l.Hub.IsAttached(a.HostID) {
		return detached, nil
	}
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return detached, nil
	}
	record, err := l.record(ctx, a)
	switch {
	case errors.Is(err, errUnread):
		return unread, nil
	case err != nil:
		return detached, err
	}
	secrets, complete := l.secretsOf(a, record.GetSecrets())
	switch {
	case !complete:
		return lacking, nil
	case l.send(a, record.GetSpec(), secrets):
		return sent, nil
	}
	return detached, nil
}

// errUnread reports that the store does not answer.
var errUnread = errors.New("the coordinators' store does not answer")

// record reads the row of a launch. Every error except errUnread means that there is no good row.
func (l *Launcher) record(ctx context.Context, a *ledger.Allocation) (*storev1.LaunchRecord, error) {
	payload, err := l.Rows.Launch(ctx, a.Launch().Row)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errors.New("the coordinators' store has lost what is to be executed")
	}
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Warn("the command of a launch could not be read, and is read again", "allocation_id", a.ID, "error", err)
		}
		return nil, errUnread
	}
	record := &storev1.LaunchRecord{}
	if err := proto.Unmarshal(payload, record); err != nil {
		return nil, errors.New("what is to be executed is damaged in the coordinators' store")
	}
	return record, nil
}

// send gives the order to the host's agent, if the agent is attached.
func (l *Launcher) send(a *ledger.Allocation, spec *bursarv1.LaunchSpec, secrets map[string]string) bool {
	order := &bursarv1.LaunchOrder{AllocationId: a.ID.String(), GrantRevision: a.GrantRevision}
	var err error
	if order.Spec, err = proto.Marshal(spec); err == nil && len(secrets) > 0 {
		order.Secrets, err = proto.Marshal(&bursarv1.LaunchSecrets{Variables: secrets})
	}
	if err != nil { // what was decoded can be encoded
		return false
	}
	return l.Hub.Send(a.HostID, &bursarv1.AttachResponse{Epoch: l.Loop.Epoch(), Order: &bursarv1.AttachResponse_Launch{Launch: order}})
}
