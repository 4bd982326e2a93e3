package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// DurationFrom converts a duration; an unset one is zero.
func DurationFrom(m *durationpb.Duration) time.Duration {
	if m == nil {
		return 0
	}
	return m.AsDuration()
}

// TimeFrom converts a time. The error is a *ledger.FieldError.
func TimeFrom(field string, m *timestamppb.Timestamp) (ledger.Instant, error) {
	const most = int64(ledger.MaxInstant) / int64(time.Second)
	const want = "a time from the years 1970 to 2109"
	switch {
	case !m.IsValid():
		return 0, FieldError(field, m.String(), want)
	case m.GetSeconds() < 0 || m.GetSeconds() > most:
		return 0, FieldError(field, m.AsTime().Format(time.RFC3339), want)
	}
	return ledger.Instant(m.GetSeconds()*int64(time.Second) + int64(m.GetNanos())), nil
}

// WishesFrom converts the host wishes of a request. The error is a *ledger.FieldError.
func WishesFrom(m *bursarv1.HostWishes) (*ledger.Wishes, error) {
	rules, err := rulesFrom(m)
	if err != nil {
		return nil, err
	}
	if m == nil || (m.GetId() == "" && len(m.GetRequiredLabels())+len(m.GetPreferredLabels())+len(m.GetAvoid()) == 0 && rules == nil) {
		return nil, nil //nolint:nilnil // no wishes are nil
	}
	w := &ledger.Wishes{Host: m.GetId(), Avoid: m.GetAvoid(), Rules: rules}
	if w.Required, err = convert.LabelsFromProto(m.GetRequiredLabels()); err != nil {
		return nil, InField("host.required_", err)
	}
	if w.Preferred, err = convert.LabelsFromProto(m.GetPreferredLabels()); err != nil {
		return nil, InField("host.preferred_", err)
	}
	return w, nil
}

// rulesFrom converts the conditions on the labels of a host; nil if there are none.
func rulesFrom(m *bursarv1.HostWishes) (*ledger.Rules, error) {
	if len(m.GetRequiredRules())+len(m.GetPreferredRules())+len(m.GetAvoidedRules()) == 0 {
		return nil, nil //nolint:nilnil // no rules are nil
	}
	rules, values := &ledger.Rules{}, 0
	for _, list := range []struct {
		field string
		texts []string
		into  *[]label.Rule
	}{
		{"host.required_rules", m.GetRequiredRules(), &rules.Required},
		{"host.preferred_rules", m.GetPreferredRules(), &rules.Preferred},
		{"host.avoided_rules", m.GetAvoidedRules(), &rules.Avoided},
	} {
		var err error
		if *list.into, err = convert.RulesFromProto(list.texts); err != nil {
			return nil, InField(list.field, err)
		}
		if values += label.CountValues(*list.into...); values > label.MaxRuleValues {
			return nil, FieldError(list.field, fmt.Sprintf("%d values", values), fmt.Sprintf("at most %d in all conditions of a request together", label.MaxRuleValues))
		}
	}
	return rules, nil
}

// addressKey returns the form of an address in the hash of a request. It must never change, because
// hashes are stored.
func addressKey(a resource.Address) string {
	key := a.Kind + ":" + a.Cluster + ":" + a.Path
	if a.Partition != "" || strings.Contains(a.Path, "@") {
		key += "@" + a.Partition
	}
	return key
}

// RequestHash tells a repeat from another request under the same id. It covers the labels as sent,
// so that a change of the label rules makes no difference, the resource, the priority and the
// wishes. A repeat may wait for less time.
func RequestHash(given label.Set, c *ledger.AllocateCommand) uint64 {
	f := NewFingerprint()
	f.Labels(given)
	for dimension, quantity := range c.Resource.All() {
		f.Text(dimension)
		f.Number(quantity)
	}
	for _, x := range c.Resource.External {
		f.Text(addressKey(x.Address))
		for dimension, quantity := range x.All() {
			f.Text(dimension)
			f.Number(quantity)
		}
	}
	f.Number(int64(c.Priority))
	if w := c.Wishes; w != nil {
		f.Text(w.Host)
		f.Labels(w.Required)
		f.Labels(w.Preferred)
		for _, id := range w.Avoid {
			f.Text(id)
		}
		if r := w.Rules; r != nil {
			for i, list := range [][]label.Rule{r.Required, r.Preferred, r.Avoided} {
				for _, rule := range list {
					f.Number(int64(i))
					f.Text(rule.String())
				}
			}
		}
	}
	if launch := c.Launch; launch != nil {
		f.Text(launch.Account)
		f.Text(string(launch.Spec))
		f.Number(int64(launch.Retries))
	}
	return uint64(f)
}

// ProcessFrom converts an engine's process.
func ProcessFrom(p *bursarv1.Process) ledger.Process {
	return ledger.Process{PID: p.GetPid(), StartTime: p.GetStartTime(), Cgroup: p.GetCgroup(), BootID: p.GetBootId(), Verified: p.GetVerified(), Launched: p.GetLaunched()}
}

// ExitFrom converts the exit status of a process; nil if it is not known.
func ExitFrom(e *bursarv1.ExitStatus) *ledger.ExitStatus {
	if e == nil {
		return nil
	}
	return &ledger.ExitStatus{Code: e.Code, Signal: e.GetSignal(), OutOfMemory: e.GetOutOfMemory()}
}

// ParseID parses an allocation's id. The error is a *ledger.FieldError of that field.
func ParseID(field, text string) (ledger.ID, error) {
	id, err := ledger.ParseID(text)
	if err != nil {
		return 0, FieldError(field, text, "an allocation's id: 13 characters of 0-9 and a-z without i, l, o, u")
	}
	return id, nil
}

// EitherID returns the id in a request that names an allocation by id or by request id. It is zero
// if the request uses the request id.
func EitherID(id, requestID string) (ledger.ID, error) {
	switch {
	case id != "" && requestID != "":
		return 0, FieldError("request_id", requestID, "either id or request_id, not both")
	case id == "" && requestID == "":
		return 0, FieldError("id", "", "an id or a request_id")
	case id == "":
		return 0, nil
	default:
		return ParseID("id", id)
	}
}

// QuotasFrom converts rules. The error names the rule and its field.
func QuotasFrom(messages []*bursarv1.Quota) ([]ledger.Quota, error) {
	quotas := make([]ledger.Quota, len(messages))
	for i, m := range messages {
		var err error
		if quotas[i], err = QuotaFrom(fmt.Sprintf("quotas[%d].", i), m); err != nil {
			return nil, err
		}
	}
	return quotas, nil
}

// QuotaFrom converts a rule. path is its place in the request, for errors.
func QuotaFrom(path string, m *bursarv1.Quota) (ledger.Quota, error) {
	q := ledger.Quota{Weight: m.GetWeight()}
	var err error
	if q.Selector, err = SelectorFrom(path+"selector", m.GetSelector()); err != nil {
		return q, err
	}
	if err := q.Selector.CheckValues(); err != nil {
		return q, inSelector(path+"selector", err)
	}
	if q.Limit, q.External, err = convert.LimitFromProto(m.GetLimit()); err != nil {
		return q, InField(path+"limit.", err)
	}
	if q.Guaranteed, q.GuaranteedExternal, err = convert.LimitFromProto(m.GetGuaranteed()); err != nil {
		return q, InField(path+"guaranteed.", err)
	}
	if m.GetNormalization() != nil {
		n, err := convert.NormalizationFromProto(m.GetNormalization())
		if err != nil {
			return q, InField(path, err)
		}
		q.Normalization = &n
	}
	return q, nil
}

// SelectorFrom converts a selector. It changes "labels[KEY]" in errors to "selector[KEY]".
func SelectorFrom(field string, labels map[string]string) (label.Selector, error) {
	selector, err := label.NewSelector(labels)
	return selector, inSelector(field, err)
}

func inSelector(field string, err error) error {
	if e, ok := errors.AsType[*label.FieldError](err); ok {
		return FieldError(field+strings.TrimPrefix(e.Field, "labels"), e.Value, e.Want)
	}
	return err
}

// InField prefixes the field of a resource's or a label's error with a path.
func InField(path string, err error) error {
	if e, ok := errors.AsType[*resource.FieldError](err); ok {
		return FieldError(path+e.Field, e.Value, e.Want)
	}
	if e, ok := errors.AsType[*label.FieldError](err); ok {
		return FieldError(path+e.Field, e.Value, e.Want)
	}
	return err
}

// FieldError refuses a request because of a field that the contract's own rules do not cover.
func FieldError(field, value, want string) error {
	return &ledger.FieldError{Field: field, Value: value, Want: want}
}
