package resource

import (
	"encoding/json"
	"fmt"
	"math"
)

// Linkis writes a dimension without limit as the largest value of its Java type, and reads a field that is not there as that.
const (
	linkisUnlimited      = math.MaxInt64
	linkisUnlimitedInt32 = math.MaxInt32
)

// linkisDefault is the name Linkis gives to a queue or a namespace that is not named.
const linkisDefault = "default"

// The fields as Linkis's Jackson writes them. Memory is in bytes and cores are whole ones, except for Kubernetes, which counts
// thousandths.
type (
	linkisMemory struct {
		Memory int64 `json:"memory"`
	}
	linkisCPU struct {
		Cores int64 `json:"cores"`
	}
	linkisLoad struct {
		Memory int64 `json:"memory"`
		Cores  int64 `json:"cores"`
	}
	// linkisInstance has its instances in cores too.
	linkisInstance struct {
		Cores     int64 `json:"cores"`
		Instances int64 `json:"instances"`
	}
	// linkisLoadInstance has its instances also under the name that it had before Linkis 1.7.
	linkisLoadInstance struct {
		Memory    int64 `json:"memory"`
		Cores     int64 `json:"cores"`
		Instances int64 `json:"instances"`
		Instance  int64 `json:"instance"`
	}
	linkisYarn struct {
		QueueMemory    int64  `json:"queueMemory"`
		QueueCores     int64  `json:"queueCores"`
		QueueInstances int64  `json:"queueInstances"`
		QueueName      string `json:"queueName"`
		ApplicationID  string `json:"applicationId"`
	}
	linkisKubernetes struct {
		Memory    int64  `json:"memory"`
		Cores     int64  `json:"cores"`
		Namespace string `json:"namespace"`
	}
	linkisDriverAndYarn struct {
		Driver linkisLoadInstance `json:"loadInstanceResource"`
		Yarn   *linkisYarn        `json:"yarnResource"`
	}
	linkisDriverAndKubernetes struct {
		Driver     linkisLoadInstance `json:"loadInstanceResource"`
		Kubernetes *linkisKubernetes  `json:"kubernetesResource"`
	}
	linkisSpecial struct {
		Resources map[string]int64 `json:"resources"`
	}
)

// MarshalLinkis writes r as Linkis persists the type. It is exact or an error, a *FieldError: r must set nothing that the type
// has no field for, and where the type counts whole cores, cpu must be whole ones (a Normalization with an increment of 1000
// rounds up). An unset dimension is written as Linkis's "without limit"; see LinkisType.Complete for zeros instead.
func MarshalLinkis(r Resource, t LinkisType) ([]byte, error) {
	s, err := t.shape()
	if err != nil {
		return nil, err
	}
	if err := s.covers(r); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if s.kind != "" && len(r.External) == 0 && s.here == 0 {
		return nil, &FieldError{"external", "no part", "one of kind " + s.kind}
	}
	w := linkisWriter{}
	value := w.value(s, r)
	if w.wrong != nil {
		return nil, w.wrong
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("resource: encoding as Linkis %s: %w", t, err)
	}
	return text, nil
}

// linkisWriter keeps the first thing that Linkis has no way to say.
type linkisWriter struct{ wrong *FieldError }

func (w *linkisWriter) value(s shape, r Resource) any {
	switch s.LinkisType {
	case LinkisMemory:
		return linkisMemory{linkisLong(r.Vector, Memory)}
	case LinkisCPU:
		return linkisCPU{w.cores(r.Vector)}
	case LinkisLoad:
		return linkisLoad{linkisLong(r.Vector, Memory), w.cores(r.Vector)}
	case LinkisInstance:
		n := w.int32(r.Vector, Instances, 1)
		return linkisInstance{n, n}
	case LinkisLoadInstance:
		return w.loadInstance(r.Vector)
	case LinkisYarn:
		return w.yarn(r)
	case LinkisDriverAndYarn:
		return linkisDriverAndYarn{w.loadInstance(r.Vector), w.yarn(r)}
	case LinkisKubernetes:
		return w.kubernetes(r)
	case LinkisDriverAndKubernetes:
		return linkisDriverAndKubernetes{w.loadInstance(r.Vector), w.kubernetes(r)}
	case LinkisSpecial:
		special := linkisSpecial{Resources: make(map[string]int64)}
		for _, q := range r.Custom() {
			special.Resources[q.Name] = q.Value
		}
		return special
	}
	return nil // shape has refused every other name
}

func (w *linkisWriter) loadInstance(v Vector) linkisLoadInstance {
	n := w.int32(v, Instances, 1)
	return linkisLoadInstance{linkisLong(v, Memory), w.cores(v), n, n}
}

func (w *linkisWriter) yarn(r Resource) *linkisYarn {
	if len(r.External) == 0 {
		return nil
	}
	e := r.External[0]
	return &linkisYarn{linkisLong(e.Vector, Memory), w.cores(e.Vector), w.int32(e.Vector, Instances, 1), e.Path, ""}
}

func (w *linkisWriter) kubernetes(r Resource) *linkisKubernetes {
	if len(r.External) == 0 {
		return nil
	}
	e := r.External[0]
	return &linkisKubernetes{linkisLong(e.Vector, Memory), linkisLong(e.Vector, CPU), e.Path}
}

func (w *linkisWriter) cores(v Vector) int64 { return w.int32(v, CPU, 1000) }

// int32 returns a quantity in units of so many, as the Java int that it will be.
func (w *linkisWriter) int32(v Vector, dimension string, unit int64) int64 {
	quantity, set := v.Get(dimension)
	switch {
	case !set:
		return linkisUnlimitedInt32
	case quantity%unit != 0:
		w.fail(dimension, quantity, "whole cores: Linkis counts no thousandths")
	case quantity/unit >= linkisUnlimitedInt32:
		w.fail(dimension, quantity, fmt.Sprintf("less than %d: Linkis counts in 32 bits", linkisUnlimitedInt32))
	}
	return quantity / unit
}

func (w *linkisWriter) fail(dimension string, quantity int64, want string) {
	if w.wrong == nil {
		w.wrong = &FieldError{dimension, formatQuantity(dimension, quantity), want}
	}
}

func linkisLong(v Vector, dimension string) int64 {
	if quantity, set := v.Get(dimension); set {
		return quantity
	}
	return linkisUnlimited
}
