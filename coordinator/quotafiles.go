package coordinator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/quotafile"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// quotaFiles keeps the rules of some files in force. After start one goroutine reads the files; the
// other methods may be called from any.
type quotaFiles struct {
	labels  *label.Preprocessor
	files   []*quotaFile
	reloads chan quotaReload
	metrics *commit.Metrics
	log     *slog.Logger

	mu    sync.Mutex
	wrong map[string]string // guarded by mu: the fault of each wrong file, by path
	// doubts are warnings about files in force, by path; guarded by mu.
	doubts map[string][]string
	// sets are the rules to begin a leadership with, by source: the rules that were last in force,
	// or rules that no leader has checked yet.
	sets map[string][]ledger.Quota // guarded by mu
}

// quotaFile is the last read state of one file.
type quotaFile struct {
	path   string
	stamp  fileStamp
	sum    [sha256.Size]byte
	data   []byte
	quotas []ledger.Quota
	wrong  error // the fault of the content; nil: it is right by itself
	// pending is set while that content is right by itself and not in force.
	pending bool
}

// fileStamp detects a possible change of a file without reading it.
type fileStamp struct {
	modified time.Time
	size     int64
}

func newQuotaFiles(paths []string, labels *label.Preprocessor, m *commit.Metrics, log *slog.Logger) *quotaFiles {
	q := &quotaFiles{labels: labels, reloads: make(chan quotaReload), metrics: m, log: log, wrong: make(map[string]string), doubts: make(map[string][]string), sets: make(map[string][]ledger.Quota)}
	for _, path := range paths {
		q.files = append(q.files, &quotaFile{path: path})
		m.WrongFiles.WithLabelValues(path).Set(0)
	}
	return q
}

func (f *quotaFile) source() string { return ledger.SourceFilePrefix + f.path }

// maxQuotaFile is the size in bytes above which a file is refused unread.
const maxQuotaFile = 8 << 20

// settleTime is the least age of a file's last change. With a younger change, an unchanged time and
// size do not prove that the content is unchanged.
const settleTime = 2 * time.Second

// read reads the file if its stamp has changed, and parses new content. The error is the fault of
// the file's current content, new or not.
func (f *quotaFile) read() error {
	file, info, err := regularfile.Open(f.path)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	defer file.Close()
	stamp := fileStamp{info.ModTime(), info.Size()}
	switch {
	case stamp.size > maxQuotaFile:
		return fmt.Errorf("%s: %d bytes: want at most %d", f.path, stamp.size, maxQuotaFile)
	case stamp == f.stamp:
		return f.wrong
	}
	data, err := io.ReadAll(io.LimitReader(file, maxQuotaFile))
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.stamp = fileStamp{}
	if time.Since(stamp.modified) > settleTime {
		f.stamp = stamp
	}
	if sum := sha256.Sum256(data); sum != f.sum {
		f.sum, f.data = sum, data
		f.wrong = f.parse()
		f.pending = f.wrong == nil
	}
	return f.wrong
}

func (f *quotaFile) parse() error {
	messages, err := quotafile.Parse(f.path, f.data)
	if err != nil {
		return err
	}
	quotas, err := wire.QuotasFrom(messages)
	if err != nil {
		return f.locate(err)
	}
	f.quotas = quotas
	return nil
}

// locate finds the line of a refused rule. Errors that are not about the file's rules stay as they
// are.
func (f *quotaFile) locate(err error) error {
	if e, ok := errors.AsType[*ledger.FieldError](inQuotas(err, f.quotas)); ok {
		return quotafile.Locate(f.path, f.data, e.Field, fmt.Sprintf("%q: want %s", e.Value, e.Want))
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// start reads all files for the first leadership. Every one must be right, by itself and together
// with the others.
func (q *quotaFiles) start() (map[string][]ledger.Quota, error) {
	sets := make(map[string][]ledger.Quota)
	for i, f := range q.files {
		if err := f.read(); err != nil {
			return nil, inField(fmt.Sprintf("quotaFiles[%d]", i), err)
		}
		f.pending = false
		sets[f.source()] = f.quotas
	}
	if err := ledger.CheckQuotas(core.QuotasOfFiles(sets)); err != nil {
		return nil, q.locateRefusal(err)
	}
	q.setLatest(sets)
	return sets, nil
}

func (q *quotaFiles) setLatest(sets map[string][]ledger.Quota) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.sets, sets)
}

// latest returns the rules that a leadership begins with.
func (q *quotaFiles) latest() map[string][]ledger.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.sets)
}

// locateRefusal finds the file of the rule because of which a leadership was refused.
func (q *quotaFiles) locateRefusal(err error) error {
	for _, f := range q.files {
		if _, ok := errors.AsType[*ledger.FieldError](err); ok && inQuotas(err, f.quotas) != err { //nolint:errorlint // the same one
			return f.locate(err)
		}
	}
	return err
}

// watch puts changes in force until ctx ends. The earlier rules of a wrong file stay in force.
func (q *quotaFiles) watch(ctx context.Context, every time.Duration, loop *commit.Loop) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			q.poll(ctx, loop)
		case reload := <-q.reloads:
			reload.done <- q.replace(reload.ctx, loop, reload.paths) //nolint:contextcheck // that of the reload's caller
		case <-ctx.Done():
			return
		}
	}
}

// poll reads every file once. It puts the changed files in force together, so that a rule can move
// from one to another. If that is refused, it puts them in force one by one, so that a wrong file
// does not hold up the others.
func (q *quotaFiles) poll(ctx context.Context, loop *commit.Loop) {
	var fresh []*quotaFile
	for _, f := range q.files {
		switch err := f.read(); {
		case err != nil:
			q.setWrong(f, err)
		case f.pending:
			fresh = append(fresh, f)
		default:
			q.setRight(f)
		}
	}
	if len(fresh) == 0 || q.enforce(ctx, loop, fresh...) == nil || len(fresh) == 1 {
		return
	}
	for _, f := range fresh {
		_ = q.enforce(ctx, loop, f) // it has been reported
	}
}

// enforce puts the rules of some files in force in one step.
func (q *quotaFiles) enforce(ctx context.Context, loop *commit.Loop, files ...*quotaFile) error {
	sets := make(map[string][]ledger.Quota, len(files))
	for _, f := range files {
		sets[f.source()] = f.quotas
	}
	err := q.setFiles(ctx, loop, sets)
	refused, _ := errors.AsType[*ledger.FieldError](err)
	switch {
	case errors.Is(err, core.ErrNotLeading):
		// the leader has files of its own; these are for this coordinator's next leadership
		q.setLatest(sets)
	case err == nil:
		q.setLatest(sets)
		for _, f := range files {
			f.pending = false
			q.setRight(f)
			q.setDoubts(f)
			q.log.Info("the rules of a quota file are in force", "file", f.path, "rules", len(f.quotas))
		}
	case refused != nil && len(files) == 1:
		q.setWrong(files[0], files[0].locate(err))
	}
	return err // others, such as not leading, pass by themselves: the next poll tries again
}

// setFiles puts sets of rules in force. If this coordinator does not lead, it does not compare them
// with the stored rules. To begin a leadership with, they need only be right by themselves.
func (q *quotaFiles) setFiles(ctx context.Context, loop *commit.Loop, sets map[string][]ledger.Quota) error {
	err := loop.SetQuotaFiles(ctx, originOfFiles(sets), sets)
	if !errors.Is(err, core.ErrNotLeading) {
		return err
	}
	all := q.latest()
	maps.Copy(all, sets)
	if wrong := ledger.CheckQuotas(core.QuotasOfFiles(all)); wrong != nil {
		return wrong //nolint:wrapcheck // as the ledger would say it
	}
	return err
}

// setWrong notes the fault of a file, and logs it once. If a rule conflicts with others, every poll
// tries it again, because the others may be removed.
func (q *quotaFiles) setWrong(f *quotaFile, err error) {
	q.mu.Lock()
	before := q.wrong[f.path]
	q.wrong[f.path] = err.Error()
	q.mu.Unlock()
	if before != err.Error() {
		q.metrics.WrongFiles.WithLabelValues(f.path).Set(1)
		q.log.Error("a quota file is wrong: the rules it had stay in force", "file", f.path, "error", err)
	}
}

// setDoubts stores and logs the warnings about a file that is in force.
func (q *quotaFiles) setDoubts(f *quotaFile) {
	var list []string
	for _, doubt := range quotafile.Doubts(f.path, f.data) {
		list = append(list, doubt.Error())
		q.log.Warn("a quota file is in force as it is, and says what is hardly meant", "file", f.path, "doubt", doubt)
	}
	for i := range f.quotas {
		if len(list) == mostRuleDoubts {
			break
		}
		for _, doubt := range ruleDoubts(&f.quotas[i], q.labels) {
			if len(list) == mostRuleDoubts {
				break
			}
			list = append(list, f.path+": "+doubt)
			q.log.Warn("a quota file is in force as it is, and says what is hardly meant", "file", f.path, "doubt", doubt)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubts[f.path] = list
}

// setRight clears the fault of a file.
func (q *quotaFiles) setRight(f *quotaFile) {
	q.mu.Lock()
	delete(q.wrong, f.path)
	q.mu.Unlock()
	q.metrics.WrongFiles.WithLabelValues(f.path).Set(0)
}

// warnings returns the current faults and doubts of the files.
func (q *quotaFiles) warnings() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []string
	for path, text := range q.wrong {
		list = append(list, fmt.Sprintf("quota file %s: %s", path, text))
	}
	for _, doubts := range q.doubts {
		for _, text := range doubts {
			list = append(list, "quota file "+text)
		}
	}
	slices.Sort(list)
	return list
}

// originOfFiles returns an origin that is the same for the same rules, read again.
func originOfFiles(sets map[string][]ledger.Quota) *core.Origin {
	rules := &bursarv1.ApplyRequest{}
	for _, source := range slices.Sorted(maps.Keys(sets)) {
		for _, quota := range sets[source] {
			quota.Source = source
			rules.Quotas = append(rules.Quotas, wire.QuotaMessage(&quota))
		}
	}
	return &core.Origin{Procedure: "rules of files", Detail: fmt.Sprint(slices.Sorted(maps.Keys(sets))), Message: rules}
}
