package requests

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Flags are the flags of the commands that ask for resources: run, allocate, explain.
type Flags struct {
	Resource                 cmdline.SizeFlags
	Labels, required, wanted cmdline.LabelFlag
	avoid                    []string
	rules, better, worse     []string // of hosts: required, preferred, to be avoided
	host, RequestID, name    string
	wait, reservation        time.Duration
	priority                 int32
}

// Defaults are the values of flags that nobody sets.
type Defaults struct{ Wait time.Duration }

// AddFlags adds the flags of a request to a command.
func AddFlags(cmd *cobra.Command) *Flags { return AddFlagsWith(cmd, Defaults{}) }

// AddFlagsWith is AddFlags with other defaults.
func AddFlagsWith(cmd *cobra.Command, d Defaults) *Flags {
	f := &Flags{wait: d.Wait, Labels: cmdline.LabelFlag{}, required: cmdline.LabelFlag{}, wanted: cmdline.LabelFlag{}}
	cmdline.AddSizeFlags(cmd, &f.Resource)
	flags := cmd.Flags()
	flags.VarP(f.Labels, "label", "l", "who it is for: user=alice, creator=IDE, engineType=spark-3.3, …; repeatable")
	cmdline.AddDuration(flags, &f.wait, "wait", "w", "how long to wait if it does not fit now, such as 30s")
	flags.Var(cmdline.TTLFlag{DurationFlag: cmdline.DurationFlag{Value: &f.reservation}}, "ttl", "how long the reservation holds until it is confirmed (default 2m)")
	flags.Int32Var(&f.priority, "priority", 0, "higher goes first; only some callers may set it")
	flags.StringVar(&f.RequestID, "request-id", "", "makes the request safe to repeat: the same id is the same allocation")
	return f
}

// AddNameFlag adds the flag for the name of an allocation.
func AddNameFlag(cmd *cobra.Command, f *Flags) {
	cmd.Flags().Var(cmdline.NameFlag{Name: &f.name}, "name", "a name for people, at most 128 bytes; several may have the same")
}

// Doubts lists the labels of the request that are hardly meant.
func (f *Flags) Doubts() (list []string) {
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		if doubt := label.Doubt(key, label.WellKnown()); doubt != "" {
			list = append(list, doubt)
		}
	}
	return list
}

// Request returns the request that the flags describe.
func (f *Flags) Request() (*bursarv1.AllocateRequest, error) {
	if !f.Resource.IsSet() {
		return nil, failure.Usagef("nothing asked for: want at least one of --memory, --cpu, --instances, --custom and --external")
	}
	if err := f.Resource.MoreThanNothing(); err != nil {
		return nil, err
	}
	for _, c := range f.Resource.Vector.Custom() {
		if c.Value == 0 {
			return nil, failure.Usagef("--custom %s=0: want 1 or more, or no %s", c.Name, c.Name)
		}
	}
	for _, part := range f.Resource.External {
		if part.IsZero() {
			return nil, failure.Usagef("--external %s: want a quantity above zero, or no such part", part.Address)
		}
	}
	for _, flag := range []struct {
		name  string
		value time.Duration
		field protoreflect.Name
	}{{"--wait", f.wait, "wait"}, {"--ttl", f.reservation, "reservation_ttl"}} {
		if err := cmdline.WithinBounds(flag.name, flag.value, &bursarv1.AllocateRequest{}, flag.field); err != nil {
			return nil, err
		}
	}
	req := &bursarv1.AllocateRequest{
		RequestId: f.RequestID, Labels: maps.Clone(map[string]string(f.Labels)), Resource: f.Resource.Message(), Priority: f.priority, Name: f.name,
	}
	if f.wait > 0 {
		req.Wait = durationpb.New(f.wait)
	}
	if f.reservation > 0 {
		req.ReservationTtl = durationpb.New(f.reservation)
	}
	if f.host != "" || len(f.required)+len(f.wanted)+len(f.avoid)+len(f.rules)+len(f.better)+len(f.worse) > 0 {
		req.Host = &bursarv1.HostWishes{
			Id: f.host, RequiredLabels: f.required, PreferredLabels: f.wanted, Avoid: slices.Clone(f.avoid),
			RequiredRules: f.rules, PreferredRules: f.better, AvoidedRules: f.worse,
		}
	}
	return req, nil
}
