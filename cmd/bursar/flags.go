package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// quantityFlag sets one dimension of a vector from text such as 4GiB or 500m.
type quantityFlag struct {
	vector    *resource.Vector
	dimension string
}

func (f quantityFlag) String() string {
	if f.vector == nil {
		return ""
	}
	return f.vector.Text()[f.dimension]
}

func (f quantityFlag) Set(text string) error {
	n, err := resource.ParseTyped(f.dimension, text)
	if err != nil {
		return err
	}
	*f.vector = f.vector.With(f.dimension, n)
	return nil
}

func (f quantityFlag) Type() string {
	switch f.dimension {
	case resource.Memory:
		return "size"
	case resource.CPU:
		return "cores"
	}
	return "number"
}

// countFlag sets custom countables from "gpu=1"; if any is set, it sets every dimension.
type countFlag struct {
	vector *resource.Vector
	any    bool
}

func (f countFlag) String() string { return "" }

func (f countFlag) Type() string { return "name=number" }

func (f countFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%q: want name=number, such as gpu=1", pair)
		}
		n, err := resource.ParseTyped(name, value)
		switch fixed := name == resource.Memory || name == resource.CPU || name == resource.Instances; {
		case fixed && !f.any && err == nil:
			return fmt.Errorf("%q: want --%s %s", pair, name, value)
		case fixed && !f.any:
			return fmt.Errorf("%q: want --%s", pair, name)
		case err != nil:
			return err
		}
		*f.vector = f.vector.With(name, n)
	}
	return nil
}

// labelFlag adds labels from "k=v".
type labelFlag map[string]string

func (f labelFlag) String() string { return "" }

func (f labelFlag) Type() string { return "key=value" }

func (f labelFlag) Set(text string) error {
	set, err := label.Parse(text)
	if err != nil {
		return err
	}
	for _, l := range set {
		if l.Key == label.User && l.Value == "" {
			return &label.FieldError{Field: "labels[user]", Want: "the name of a user: this one is empty, as $USER is if it is not set"}
		}
		if before, twice := f[l.Key]; twice && before != l.Value {
			return fmt.Errorf("%s is %q and %q: want one value", l.Key, before, l.Value)
		}
		f[l.Key] = l.Value
	}
	return nil
}

// filterFlag adds labels that select what is there: each with one value, or * for any.
type filterFlag labelFlag

func (f filterFlag) String() string { return "" }

func (f filterFlag) Type() string { return "key=value" }

func (f filterFlag) Set(text string) error {
	set, err := label.Parse(text)
	if err != nil {
		return err
	}
	for _, l := range set {
		if l.Value != label.Any && strings.Contains(l.Value, label.Any) && !strings.Contains(text, l.Key+`="`) {
			return &label.FieldError{Field: "labels[" + l.Key + "]", Value: l.Value, Want: "one value, or * alone for any; a value with a * in it in double quotes"}
		}
	}
	return labelFlag(f).Set(text)
}

// text writes the filter as it was typed.
func (f filterFlag) text() string {
	if len(f) == 0 {
		return ""
	}
	return "--label " + spelling.Shell(render.LabelsText(f))
}

// namesFlag adds names from "a,b". One with a comma, or blanks at its ends, is in double quotes.
type namesFlag struct {
	names *[]string
	what  string
}

func (f namesFlag) String() string { return "" }

func (f namesFlag) Type() string { return f.what }

func (f namesFlag) Set(text string) error {
	for rest := ","; rest != ""; {
		name, behind, quoted, ok := spelling.CutName(strings.TrimLeft(text, " "), ",")
		if name == "" || !ok {
			return fmt.Errorf("%q: want names with commas between several, one with a comma in double quotes", text)
		}
		if !quoted {
			name = strings.TrimSpace(name)
		}
		*f.names = append(*f.names, name)
		rest, text = behind, strings.TrimPrefix(behind, ",")
	}
	return nil
}

// filtersOf puts together what filters a list; empty without any.
func filtersOf(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), " ")
}

// filterText writes a flag that filters by one value or several; empty without any.
func filterText(flag string, values ...string) string {
	if text := strings.Join(values, ","); text != "" {
		return flag + " " + spelling.Shell(text)
	}
	return ""
}

// externalFlag adds parts in queues of other clusters from "yarn:prod:root.a,memory=4GiB,cpu=4". As
// limits, such parts may be in any cluster or queue: "yarn:*:*,memory=200GiB".
type externalFlag struct {
	parts  *[]resource.External
	limits bool
}

// exampleOf are quantities of the dimensions that external parts have.
var exampleOf = map[string]string{
	resource.Memory: "memory=4GiB", resource.CPU: "cpu=4", resource.Instances: "instances=1",
	resource.AMMemory: "am-memory=1GiB", resource.AMCPU: "am-cpu=1", resource.Applications: "applications=1",
}

func (f externalFlag) String() string { return "" }

func (f externalFlag) Type() string { return "part" }

func (f externalFlag) Set(text string) error {
	quantities := resource.ExternalQuantities(text)
	for pair := range strings.SplitSeq(quantities, ",") {
		name, value, isQuantity := strings.Cut(pair, "=")
		// Other systems' words would be counted as something that no queue has.
		if meant := resource.Meant(name); isQuantity && meant != "" {
			return fmt.Errorf("%s: want %s, such as %s; did you mean %s=%s?", name, meant, exampleOf[meant], meant, value)
		}
	}
	part, err := resource.ParseExternal(text)
	if err != nil {
		return err
	}
	if f.limits {
		part = resource.NewLimits(part)[0]
		if err := resource.ValidateLimits([]resource.External{part}); err != nil {
			return err
		}
	}
	for pair := range strings.SplitSeq(quantities, ",") {
		if name, value, isQuantity := strings.Cut(pair, "="); isQuantity {
			if _, err := resource.ParseTyped(name, value); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(*f.parts, func(other resource.External) bool { return other.Address == part.Address }) {
		return fmt.Errorf("%s is there twice: want one part for each queue", part.Address)
	}
	*f.parts = append(*f.parts, part)
	return nil
}

// sizeFlags are those of a resource with parts in other clusters.
type sizeFlags struct {
	vector   resource.Vector
	external []resource.External
}

func addSizeFlags(cmd *cobra.Command, f *sizeFlags) {
	addResourceFlags(cmd, &f.vector)
	cmd.Flags().Var(externalFlag{parts: &f.external}, "external",
		"a part in a queue of a cluster, such as yarn:prod:root.a,memory=4GiB,cpu=4; repeatable; see: bursar help external")
}

func (f *sizeFlags) isSet() bool { return !f.vector.IsUnset() || len(f.external) > 0 }

func (f *sizeFlags) resource() resource.Resource {
	return resource.NewResource(f.vector, f.external...)
}

func (f *sizeFlags) message() *bursarv1.Resource { return convert.ResourceToProto(f.resource()) }

// addResourceFlags adds the flags that make up a vector.
func addResourceFlags(cmd *cobra.Command, v *resource.Vector) {
	flags := cmd.Flags()
	flags.VarP(quantityFlag{v, resource.Memory}, "memory", "m", "memory, such as 4GiB, 512MiB, 4G")
	flags.VarP(quantityFlag{v, resource.CPU}, "cpu", "c", "cores such as 2 or 1.5, or thousandths such as 500m")
	flags.Var(quantityFlag{v, resource.Instances}, "instances", "number of engines")
	flags.Var(countFlag{vector: v}, "custom", "a countable thing of the hosts, such as gpu=1; repeatable")
}

// requestFlags are the flags of the commands that ask for resources: run, allocate, explain.
type requestFlags struct {
	resource                 sizeFlags
	labels, required, wanted labelFlag
	avoid                    []string
	host, requestID          string
	wait, reservation        time.Duration
	priority                 int32
}

func addRequestFlags(cmd *cobra.Command) *requestFlags {
	f := &requestFlags{labels: labelFlag{}, required: labelFlag{}, wanted: labelFlag{}}
	addSizeFlags(cmd, &f.resource)
	flags := cmd.Flags()
	flags.VarP(f.labels, "label", "l", "who it is for: user=alice, creator=IDE, engineType=spark-3.3, …; repeatable")
	addDuration(flags, &f.wait, "wait", "w", "how long to wait if it does not fit now, such as 30s")
	flags.Var(ttlFlag{durationFlag{&f.reservation}}, "ttl", "how long the reservation holds until it is confirmed (default 2m)")
	flags.Int32Var(&f.priority, "priority", 0, "higher goes first; only some callers may set it")
	flags.StringVar(&f.requestID, "request-id", "", "makes the request safe to repeat: the same id is the same allocation")
	return f
}

// addPlaceFlags adds the flags for where an allocation may go. A request to an agent has none: it
// is for the agent's host.
func addPlaceFlags(cmd *cobra.Command, f *requestFlags) {
	flags := cmd.Flags()
	flags.Var(hostFlag{&f.host}, "host", "on this host and no other; with --wait it need not be there yet")
	flags.Var(f.required, "require", "only on hosts with this label; repeatable")
	flags.Var(f.wanted, "prefer", "if possible on hosts with this label; repeatable")
	flags.Var(namesFlag{&f.avoid, "host"}, "avoid", "not on this host; repeatable")
}

// moreThanNothing refuses a size that is named and nothing.
func (f *sizeFlags) moreThanNothing() error {
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances} {
		if n, set := f.vector.Get(dimension); set && n == 0 {
			return failure.Usagef("--%s 0: want more than nothing, or no --%s", dimension, dimension)
		}
	}
	return nil
}

// doubts are what the labels of the request hardly mean.
func (f *requestFlags) doubts() (list []string) {
	for _, key := range slices.Sorted(maps.Keys(f.labels)) {
		if doubt := label.Doubt(key, label.WellKnown()); doubt != "" {
			list = append(list, doubt)
		}
	}
	return list
}

// request returns what the flags ask for.
func (f *requestFlags) request() (*bursarv1.AllocateRequest, error) {
	if !f.resource.isSet() {
		return nil, failure.Usagef("nothing asked for: want at least one of --memory, --cpu, --instances, --custom and --external")
	}
	if err := f.resource.moreThanNothing(); err != nil {
		return nil, err
	}
	for _, c := range f.resource.vector.Custom() {
		if c.Value == 0 {
			return nil, failure.Usagef("--custom %s=0: want 1 or more, or no %s", c.Name, c.Name)
		}
	}
	for _, part := range f.resource.external {
		if part.IsZero() {
			return nil, failure.Usagef("--external %s: want a quantity above zero, or no such part", part.Address)
		}
	}
	for _, flag := range []struct {
		name  string
		value time.Duration
		field protoreflect.Name
	}{{"--wait", f.wait, "wait"}, {"--ttl", f.reservation, "reservation_ttl"}} {
		if err := withinBounds(flag.name, flag.value, &bursarv1.AllocateRequest{}, flag.field); err != nil {
			return nil, err
		}
	}
	req := &bursarv1.AllocateRequest{
		RequestId: f.requestID, Labels: maps.Clone(map[string]string(f.labels)), Resource: f.resource.message(), Priority: f.priority,
	}
	if f.wait > 0 {
		req.Wait = durationpb.New(f.wait)
	}
	if f.reservation > 0 {
		req.ReservationTtl = durationpb.New(f.reservation)
	}
	if f.host != "" || len(f.required)+len(f.wanted)+len(f.avoid) > 0 {
		req.Host = &bursarv1.HostWishes{
			Id: f.host, RequiredLabels: f.required, PreferredLabels: f.wanted, Avoid: slices.Clone(f.avoid),
		}
	}
	return req, nil
}
