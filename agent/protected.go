package agent

import (
	"context"
	"fmt"
	"slices"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/resource"
)

// ProtectsAll lists the fields that protect the whole capacity of a dimension, so that an agent
// with this configuration could grant none of it. It runs no counting command: it checks a custom
// countable only if Capacity names it.
func (c Config) ProtectsAll(ctx context.Context) ([]*ConfigError, error) {
	s, err := c.resolve()
	if err != nil {
		return nil, err
	}
	meter, err := host.NewMeter(s.meterOptions())
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	has, err := meter.Capacity(ctx)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	return s.protectsAll(s.limits(has.MemoryBytes, has.CPUMillis, nil)), nil
}

func (s *settings) protectsAll(capacity *bursarv1.Resource) (list []*ConfigError) {
	has, err := convert.VectorFromProto(capacity)
	if err != nil {
		return nil // of the agent's own making
	}
	for _, dimension := range s.protected.TakesAllOf(has) {
		kept, _ := s.protected.Get(dimension)
		most, _ := has.Get(dimension)
		list = append(list, &ConfigError{
			"protected." + dimension, resource.FormatQuantity(dimension, kept),
			"less than " + resource.FormatQuantity(dimension, most) + ", which is all that the host has: engines get none of it",
		})
	}
	return list
}

// warnOfProtected logs the settings that protect a whole capacity, unless it has logged them
// already.
func (a *Agent) warnOfProtected(capacity *bursarv1.Resource) {
	list := a.settings().protectsAll(capacity)
	for _, wrong := range list {
		if !slices.ContainsFunc(a.protectsAll, func(e *ConfigError) bool { return e.Field == wrong.Field && e.Value == wrong.Value }) {
			a.log.Warn("all that the host has is protected", "field", wrong.Field, "value", wrong.Value, "want", wrong.Want)
		}
	}
	a.protectsAll = list
}
