package linkis

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/bursar/bursar/resource"
)

// Linkis writes an unlimited dimension as the largest value of its Java type, and reads an absent
// field as unlimited.
const (
	unlimitedLong = math.MaxInt64
	unlimitedInt  = math.MaxInt32
)

// defaultName is Linkis's name for a queue or namespace without a name.
const defaultName = "default"

// The fields in the format of Linkis's Jackson. Memory is in bytes and cores are whole, except for
// Kubernetes, which counts thousandths.
type (
	memoryForm struct {
		Memory int64 `json:"memory"`
	}
	cpuForm struct {
		Cores int64 `json:"cores"`
	}
	loadForm struct {
		Memory int64 `json:"memory"`
		Cores  int64 `json:"cores"`
	}
	// instanceForm has its instances in cores, too.
	instanceForm struct {
		Cores     int64 `json:"cores"`
		Instances int64 `json:"instances"`
	}
	// loadInstanceForm has its instances also under the name that was used before Linkis 1.7.
	loadInstanceForm struct {
		Memory    int64 `json:"memory"`
		Cores     int64 `json:"cores"`
		Instances int64 `json:"instances"`
		Instance  int64 `json:"instance"`
	}
	yarnForm struct {
		QueueMemory    int64  `json:"queueMemory"`
		QueueCores     int64  `json:"queueCores"`
		QueueInstances int64  `json:"queueInstances"`
		QueueName      string `json:"queueName"`
		ApplicationID  string `json:"applicationId"`
	}
	kubernetesForm struct {
		Memory    int64  `json:"memory"`
		Cores     int64  `json:"cores"`
		Namespace string `json:"namespace"`
	}
	driverAndYarnForm struct {
		Driver loadInstanceForm `json:"loadInstanceResource"`
		Yarn   *yarnForm        `json:"yarnResource"`
	}
	driverAndKubernetesForm struct {
		Driver     loadInstanceForm `json:"loadInstanceResource"`
		Kubernetes *kubernetesForm  `json:"kubernetesResource"`
	}
	specialForm struct {
		Resources map[string]int64 `json:"resources"`
	}
)

// Marshal formats r as Linkis persists the type. It is exact or returns a *resource.FieldError: r
// must not set anything that the type has no field for. If the type counts whole cores, cpu must be
// whole (a Normalization with an increment of 1000 rounds up). An unset dimension is written as
// Linkis's unlimited value; see Type.Complete for zeros instead.
func Marshal(r resource.Resource, t Type) ([]byte, error) {
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
		return nil, fieldError("external", "no part", "one of kind "+s.kind)
	}
	w := writer{}
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

// writer keeps the first value that Linkis cannot represent.
type writer struct{ wrong *resource.FieldError }

func (w *writer) value(s shape, r resource.Resource) any {
	switch s.Type {
	case Memory:
		return memoryForm{long(r.Vector, resource.Memory)}
	case CPU:
		return cpuForm{w.cores(r.Vector)}
	case Load:
		return loadForm{long(r.Vector, resource.Memory), w.cores(r.Vector)}
	case Instance:
		n := w.int32(r.Vector, resource.Instances, 1)
		return instanceForm{n, n}
	case LoadInstance:
		return w.loadInstance(r.Vector)
	case Yarn:
		return w.yarn(r)
	case DriverAndYarn:
		return driverAndYarnForm{w.loadInstance(r.Vector), w.yarn(r)}
	case Kubernetes:
		return w.kubernetes(r)
	case DriverAndKubernetes:
		return driverAndKubernetesForm{w.loadInstance(r.Vector), w.kubernetes(r)}
	case Special:
		special := specialForm{Resources: make(map[string]int64)}
		for _, q := range r.Custom() {
			special.Resources[q.Name] = q.Value
		}
		return special
	}
	return nil // shape has rejected every other name
}

func (w *writer) loadInstance(v resource.Vector) loadInstanceForm {
	n := w.int32(v, resource.Instances, 1)
	return loadInstanceForm{long(v, resource.Memory), w.cores(v), n, n}
}

func (w *writer) yarn(r resource.Resource) *yarnForm {
	if len(r.External) == 0 {
		return nil
	}
	e := r.External[0]
	return &yarnForm{long(e.Vector, resource.Memory), w.cores(e.Vector), w.int32(e.Vector, resource.Instances, 1), e.Path, ""}
}

func (w *writer) kubernetes(r resource.Resource) *kubernetesForm {
	if len(r.External) == 0 {
		return nil
	}
	e := r.External[0]
	return &kubernetesForm{long(e.Vector, resource.Memory), long(e.Vector, resource.CPU), e.Path}
}

func (w *writer) cores(v resource.Vector) int64 { return w.int32(v, resource.CPU, 1000) }

// int32 returns a quantity in the given unit, as a Java int.
func (w *writer) int32(v resource.Vector, dimension string, unit int64) int64 {
	quantity, set := v.Get(dimension)
	switch {
	case !set:
		return unlimitedInt
	case quantity%unit != 0:
		w.fail(dimension, quantity, "whole cores: Linkis counts no thousandths")
	case quantity/unit >= unlimitedInt:
		w.fail(dimension, quantity, fmt.Sprintf("less than %d: Linkis counts in 32 bits", unlimitedInt))
	}
	return quantity / unit
}

func (w *writer) fail(dimension string, quantity int64, want string) {
	if w.wrong == nil {
		w.wrong = fieldError(dimension, resource.FormatQuantity(dimension, quantity), want)
	}
}

func long(v resource.Vector, dimension string) int64 {
	if quantity, set := v.Get(dimension); set {
		return quantity
	}
	return unlimitedLong
}
