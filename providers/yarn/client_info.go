package yarn

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// readAnswer decodes an answer of one JSON object, and calls field with every key. field must read
// the value.
func readAnswer(r io.Reader, field func(*reader, []byte) error) error {
	from := &stream{from: r}
	answer := &reader{tokens: tokensOf(from), names: map[string]chosenName{}}
	if answer.next() != jsontext.KindBeginObject {
		return malformed("no object")
	}
	err := answer.object(func(key []byte) error { return field(answer, key) })
	if err == nil {
		err = answer.end()
	}
	if _, is := errors.AsType[*AnswerError](err); is {
		return err
	}
	if from.err != nil && !errors.Is(from.err, io.EOF) {
		return from.err
	}
	if err != nil {
		return malformedJSON(err)
	}
	return nil
}

// states of a ResourceManager (HAServiceState). Without high availability it is active.
const (
	stateActive  = "ACTIVE"
	stateStandby = "STANDBY"
)

// clusterInfo is a ResourceManager's answer about itself.
type clusterInfo struct {
	// id is the start time in milliseconds. Hadoop uses it in application ids.
	id      int64
	state   string // stateActive, stateStandby, INITIALIZING or STOPPING; empty: not reported
	version string
}

// active reports whether the server is active. Versions without a state have only one server.
func (c clusterInfo) active() bool { return c.state == stateActive || c.state == "" }

// role returns the state as in providers.Server.Role; empty if it is neither, as during start and
// stop.
func (c clusterInfo) role() string {
	switch {
	case c.active():
		return "active"
	case c.state == stateStandby:
		return "standby"
	}
	return ""
}

// info asks a server for its state. A standby ResourceManager answers this path, and no other. The
// error is a *ServerError.
func (s *server) info(ctx context.Context) (clusterInfo, error) {
	var info clusterInfo
	there := false
	err := s.get(ctx, "/info", nil, func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "clusterInfo" {
				return r.skip()
			}
			return r.object(func(key []byte) (err error) {
				switch string(key) {
				case "startedOn", "id": // both have the same value
					info.id, there, err = r.integer()
				case "haState":
					info.state, err = r.text()
				case "resourceManagerVersion":
					info.version, err = r.text()
				default:
					err = r.skip()
				}
				return err
			})
		})
	})
	if err != nil {
		return info, err
	}
	if !there {
		return info, s.malformedAnswer(malformed("no clusterInfo: it is no ResourceManager"))
	}
	info.state = strings.ToUpper(info.state)
	return info, nil
}

// scheduler reads all queues. The error is a *ServerError.
func (s *server) scheduler(ctx context.Context) (*Scheduler, error) {
	var read *Scheduler
	err := s.get(ctx, "/scheduler", nil, func(body io.Reader) (err error) {
		read, err = Decode(body)
		return err
	})
	return read, err
}

// incarnation identifies one run of one ResourceManager.
func (s *server) incarnation(info clusterInfo) string {
	return s.String() + " " + strconv.FormatInt(info.id, 10)
}

// values makes a query from names and values.
func values(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return query
}

// label returns the only label of a machine, which comes in a list.
func (r *reader) label() (string, error) {
	if r.next() != jsontext.KindBeginArray {
		return r.text()
	}
	label := ""
	err := r.array(func() error {
		text, err := r.text()
		if label == "" {
			label = text
		}
		return err
	})
	return label, err
}
