package cmdline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

// CountFlag sets custom countables from "gpu=1"; if any is set, it sets every dimension.
type CountFlag struct {
	Vector *resource.Vector
	Any    bool
}

func (f CountFlag) String() string { return "" }

// Type names the form in help texts.
func (f CountFlag) Type() string { return "name=number" }

// Set adds a countable thing.
func (f CountFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%q: want name=number, such as gpu=1", pair)
		}
		n, err := resource.ParseTyped(name, value)
		switch fixed := name == resource.Memory || name == resource.CPU || name == resource.Instances; {
		case fixed && !f.Any && err == nil:
			return fmt.Errorf("%q: want --%s %s", pair, name, value)
		case fixed && !f.Any:
			return fmt.Errorf("%q: want --%s", pair, name)
		case err != nil:
			return err
		}
		*f.Vector = f.Vector.With(name, n)
	}
	return nil
}

// LabelFlag adds labels from "k=v".
type LabelFlag map[string]string

func (f LabelFlag) String() string { return "" }

// Type names the form in help texts.
func (f LabelFlag) Type() string { return "key=value" }

// Set adds labels.
func (f LabelFlag) Set(text string) error {
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

// FilterFlag adds labels that select things: each with one value, or * for any.
type FilterFlag LabelFlag

func (f FilterFlag) String() string { return "" }

// Type names the form in help texts.
func (f FilterFlag) Type() string { return "key=value" }

// Set adds labels, or any value of a key.
func (f FilterFlag) Set(text string) error {
	set, err := label.Parse(text)
	if err != nil {
		return err
	}
	for _, l := range set {
		if l.Value != label.Any && strings.Contains(l.Value, label.Any) && !strings.Contains(text, l.Key+`="`) {
			return &label.FieldError{Field: "labels[" + l.Key + "]", Value: l.Value, Want: "one value, or * alone for any; a value with a * in it in double quotes"}
		}
	}
	return LabelFlag(f).Set(text)
}

// Text writes the filter as it was typed.
func (f FilterFlag) Text() string {
	if len(f) == 0 {
		return ""
	}
	return "--label " + spelling.Shell(render.LabelsText(f))
}

// NamesFlag adds names from "a,b". One with a comma, or blanks at its ends, is in double quotes.
type NamesFlag struct {
	Names *[]string
	What  string
}

func (f NamesFlag) String() string { return "" }

// Type names the form in help texts.
func (f NamesFlag) Type() string { return f.What }

// Set adds names.
func (f NamesFlag) Set(text string) error {
	for rest := ","; rest != ""; {
		name, behind, quoted, ok := spelling.CutName(strings.TrimLeft(text, " "), ",")
		if name == "" || !ok {
			return fmt.Errorf("%q: want names with commas between several, one with a comma in double quotes", text)
		}
		if !quoted {
			name = strings.TrimSpace(name)
		}
		*f.Names = append(*f.Names, name)
		rest, text = behind, strings.TrimPrefix(behind, ",")
	}
	return nil
}

// FiltersOf puts the filters of a list together; empty without any.
func FiltersOf(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), " ")
}

// FilterText writes a flag that filters by one value or several; empty without any.
func FilterText(flag string, values ...string) string {
	if text := strings.Join(values, ","); text != "" {
		return flag + " " + spelling.Shell(text)
	}
	return ""
}

// ExternalFlag adds parts in queues of other clusters from "yarn:prod:root.a,memory=4GiB,cpu=4". As
// limits, such parts may be in any cluster or queue: "yarn:*:*,memory=200GiB".
type ExternalFlag struct {
	Parts  *[]resource.External
	Limits bool
}

// exampleOf are quantities of the dimensions that external parts have.
var exampleOf = map[string]string{
	resource.Memory: "memory=4GiB", resource.CPU: "cpu=4", resource.Instances: "instances=1",
	resource.AMMemory: "am-memory=1GiB", resource.AMCPU: "am-cpu=1", resource.Applications: "applications=1",
}

func (f ExternalFlag) String() string { return "" }

// Type names the form in help texts.
func (f ExternalFlag) Type() string { return "part" }

// Set adds a part.
func (f ExternalFlag) Set(text string) error {
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
	if f.Limits {
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
	if slices.ContainsFunc(*f.Parts, func(other resource.External) bool { return other.Address == part.Address }) {
		return fmt.Errorf("%s is there twice: want one part for each queue", part.Address)
	}
	*f.Parts = append(*f.Parts, part)
	return nil
}

// SizeFlags are those of a resource with parts in other clusters.
type SizeFlags struct {
	Vector   resource.Vector
	External []resource.External
}

// AddSizeFlags adds the flags of a size to a command.
func AddSizeFlags(cmd *cobra.Command, f *SizeFlags) {
	AddResourceFlags(cmd, &f.Vector)
	cmd.Flags().Var(ExternalFlag{Parts: &f.External}, "external",
		"a part in a queue of a cluster, such as yarn:prod:root.a,memory=4GiB,cpu=4; repeatable; see: bursar help external")
}

// IsSet reports whether the user named a size.
func (f *SizeFlags) IsSet() bool { return !f.Vector.IsUnset() || len(f.External) > 0 }

// Resource returns the size.
func (f *SizeFlags) Resource() resource.Resource {
	return resource.NewResource(f.Vector, f.External...)
}

// Message returns the size as a message of the API.
func (f *SizeFlags) Message() *bursarv1.Resource { return convert.ResourceToProto(f.Resource()) }

// AddResourceFlags adds the flags that make up a vector.
func AddResourceFlags(cmd *cobra.Command, v *resource.Vector) {
	flags := cmd.Flags()
	flags.VarP(quantityFlag{v, resource.Memory}, "memory", "m", "memory, such as 4GiB, 512MiB, 4G")
	flags.VarP(quantityFlag{v, resource.CPU}, "cpu", "c", "cores such as 2 or 1.5, or thousandths such as 500m")
	flags.Var(quantityFlag{v, resource.Instances}, "instances", "number of engines")
	flags.Var(CountFlag{Vector: v}, "custom", "a countable thing of the hosts, such as gpu=1; repeatable")
}

// MoreThanNothing refuses a size that is named and nothing.
func (f *SizeFlags) MoreThanNothing() error {
	for _, dimension := range []string{resource.Memory, resource.CPU, resource.Instances} {
		if n, set := f.Vector.Get(dimension); set && n == 0 {
			return failure.Usagef("--%s 0: want more than nothing, or no --%s", dimension, dimension)
		}
	}
	return nil
}
