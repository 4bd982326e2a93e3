package yarn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// excerptSize is the length of the prefix that excerpt looks at, in bytes.
const excerptSize = 512

// Decode reads an answer of /ws/v1/cluster/scheduler to its end. It buffers only a small part of
// the answer. The caller bounds the length: errors.As finds an error of r in the returned error.
// Every other error is an *AnswerError.
func Decode(r io.Reader) (*Scheduler, error) {
	head := make([]byte, excerptSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, readError(err)
	}
	// the byte order mark that some editors put at the start of a file
	head = bytes.TrimPrefix(head[:n], []byte("\ufeff"))
	if text := bytes.TrimSpace(head); len(text) == 0 || text[0] != '{' {
		return nil, refuseText(string(text))
	}
	from := &stream{from: io.MultiReader(bytes.NewReader(head), r)}
	a := answer{reader: reader{tokens: tokensOf(from), names: map[string]chosenName{}}}
	err = a.read()
	if refused, is := errors.AsType[*AnswerError](err); is {
		return nil, refused
	}
	if from.err != nil && !errors.Is(from.err, io.EOF) {
		return nil, readError(from.err)
	}
	if err != nil {
		return nil, malformedJSON(err)
	}
	return a.scheduler()
}

func readError(err error) error { return fmt.Errorf("read the answer: %w", err) }

// refuseText classifies a text that came in place of JSON. Proxies and standby ResourceManagers
// send such texts, with any status.
func refuseText(text string) *AnswerError {
	e := &AnswerError{Refusal: NotJSON, Detail: excerpt(text)}
	switch {
	case e.Detail == "":
		e.Detail = "nothing at all"
	case strings.Contains(e.Detail, "This is standby RM"):
		e.Refusal = Standby
	case strings.Contains(e.Detail, "no active RM"), strings.Contains(e.Detail, "not find any active RM"):
		e.Refusal = NoneActive
	case isXML(text):
		e.Refusal, e.Detail = XML, wantJSON
	}
	return e
}

const wantJSON = "want JSON: ask with the header Accept: application/json, and let a proxy on the way pass it on"

// isXML reports whether a text is a ResourceManager's answer in XML, and not an HTML page.
func isXML(text string) bool {
	if _, rest, found := strings.Cut(text, "?>"); found && strings.HasPrefix(text, "<?xml") {
		text = strings.TrimSpace(rest)
	}
	for _, element := range []string{"<scheduler", "<clusterInfo", "<clusterMetrics", "<nodes", "<apps", "<app>", "<RemoteException"} {
		if strings.HasPrefix(text, element) {
			return true
		}
	}
	return false
}

// answer is the content of the outermost objects.
type answer struct {
	reader
	info      []*node // schedulerInfo
	federated bool
	exception bool
	message   string
}

// read reads the whole answer, and checks that nothing follows it.
func (a *answer) read() error {
	if err := a.object(a.field); err != nil {
		return err
	}
	return a.end()
}

// field reads a key of the outermost object. A federation router uses another key for the object
// with its subclusters, so field looks into every object.
func (a *answer) field(key []byte) error {
	switch string(key) {
	case "RemoteException":
		a.exception = true
		return a.object(a.exceptionField)
	case "schedulerInfo", "subCluster":
		return a.schedulerField(key)
	default:
		return a.object(a.schedulerField)
	}
}

func (a *answer) schedulerField(key []byte) error {
	switch string(key) {
	case "schedulerInfo":
		return a.nodes(&a.info)
	case "subCluster":
		a.federated = true
	}
	return a.skip()
}

func (a *answer) exceptionField(key []byte) error {
	if string(key) != "message" && string(key) != "exception" {
		return a.skip()
	}
	text, err := a.prose()
	if text != "" {
		a.message = strings.TrimPrefix(a.message+": "+text, ": ")
	}
	return err
}

// scheduler converts the answer to a Scheduler.
func (a *answer) scheduler() (*Scheduler, error) {
	switch {
	case a.exception:
		return nil, &AnswerError{Refusal: RemoteException, Detail: a.message}
	case a.federated:
		return nil, &AnswerError{Refusal: Federation, Detail: "ask the ResourceManagers behind it"}
	case len(a.info) == 0:
		return nil, malformed("no schedulerInfo: it is no answer about a scheduler")
	case len(a.info) > 1:
		return nil, malformed(fmt.Sprintf("schedulerInfo is there %d times", len(a.info)))
	}
	made, err := a.info[0].scheduler()
	if err == nil {
		made.MoreAbsurd = a.absurd - len(made.Absurd)
	}
	return made, err
}

// scheduler converts schedulerInfo. Both its type and its fields tell the kind of the scheduler.
// Some gateways leave out the type; then the fields are enough.
func (n *node) scheduler() (*Scheduler, error) {
	fair, capacity := len(n.root) > 0, n.name != "" || n.fault != "" || len(n.children) > 0 || len(n.capacities) > 0
	switch {
	case n.kind != "" && !slices.Contains([]string{"capacityScheduler", "fairScheduler", "fifoScheduler"}, n.kind):
		return nil, malformed(fmt.Sprintf("a scheduler of type %q: want capacityScheduler, fairScheduler or fifoScheduler", excerpt(n.kind)))
	case fair && (n.kind == "fairScheduler" || n.kind == ""):
		return fairScheduler(n)
	case n.fifo && (n.kind == "fifoScheduler" || n.kind == ""):
		return fifoScheduler(n), nil
	case capacity && (n.kind == "capacityScheduler" || n.kind == ""):
		return capacityScheduler(n)
	default:
		return nil, malformed(fmt.Sprintf("no queues in schedulerInfo of type %q", n.kind))
	}
}

func malformed(detail string) *AnswerError {
	return &AnswerError{Refusal: Malformed, Detail: detail}
}
