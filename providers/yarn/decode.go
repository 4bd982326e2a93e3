package yarn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// excerptSize is how many bytes of a text are looked at.
const excerptSize = 512

// Decode reads an answer of /ws/v1/cluster/scheduler to its end. It holds no more of it than a
// buffer. The caller bounds how much it may read: an error of r is returned so that errors.As
// finds it. Every other error is an *AnswerError.
func Decode(r io.Reader) (*Scheduler, error) {
	head := make([]byte, excerptSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, readError(err)
	}
	// what some editors put before a file that is saved
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

// refuseText says what a text is that stands in place of JSON: proxies and ResourceManagers that
// are not in charge send such, with any status.
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

// isXML reports whether a text is an answer of a ResourceManager in XML, and no page.
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

// answer is what the outermost objects hold.
type answer struct {
	reader
	info      []*node // schedulerInfo
	federated bool
	exception bool
	message   string
}

// read reads the whole answer, and sees that nothing comes behind it.
func (a *answer) read() error {
	if err := a.object(a.field); err != nil {
		return err
	}
	return a.end()
}

// field reads the outermost object. A federation router calls it otherwise, so whatever holds its
// subclusters is looked into.
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

// scheduler says what was read.
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

// scheduler is what schedulerInfo says. What kind it is it says itself, and its fields do. Without
// a type, as from some gateways, the fields are enough.
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
