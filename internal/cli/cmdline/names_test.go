package cmdline

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// anyName draws names with all in them that a parser or a shell could trip over, or read otherwise.
func anyName(least, most int) *rapid.Generator[string] {
	odd := []rune("a\\,@:=*\"'`$ !#&|;<>()[]{}?~%/-_.ö名\u3164\u202e\u200b\u00a0\u0301\U000e0041") //nolint:gosmopolitan // users have such names
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom(odd), least, most, -1),
		rapid.SampledFrom([]string{`CORP\alice`, `\\server\share`, `a\`, "root.a@x", "-rf", "--help", "$HOME", "`id`", "a,b", "x ", " x", `"x"`, "*", "a*", "none", "C:\\jobs"}),
	)
}

func labelValue() *rapid.Generator[string] {
	return anyName(0, 12).Filter(func(s string) bool { return len(s) <= 255 })
}

// queuePath draws a path as a cluster may have it: each of its names is not empty.
func queuePath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfN(rapid.Map(anyName(1, 8), func(s string) string { return strings.ReplaceAll(s, ".", "_") }), 0, 3).Draw(t, "names")
		return strings.Join(append([]string{"root"}, names...), ".")
	})
}

// set is what a flag makes of a word, as the command line has it behind the flag.
func set(t *rapid.T, value pflag.Value, name, word string) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Var(value, name, "")
	if err := flags.Parse([]string{"--" + name, word}); err != nil {
		t.Fatalf("--%s %s: %v", name, word, err)
	}
}

// bursar accepts each name that it prints. Words collects them: a shell must read all back.
func TestEveryPrintedNameIsAccepted(t *testing.T) {
	var words []string
	rapid.Check(t, func(t *rapid.T) {
		accepted := func(word string) string { words = append(words, word); return word }

		// Labels: of requests, of hosts, of filters, of accounts and of rules.
		labels := map[string]string{"user": labelValue().Filter(func(s string) bool { return s != "" }).Draw(t, "user"), "job/name": labelValue().Draw(t, "job")}
		got := LabelFlag{}
		set(t, got, "label", accepted(render.LabelsText(labels)))
		if got["user"] != labels["user"] || got["job/name"] != labels["job/name"] {
			t.Fatalf("%q is printed %s and read as %q", labels, render.LabelsText(labels), got)
		}
		filter := FilterFlag{}
		set(t, filter, "label", render.LabelsText(labels))
		if filter["user"] != labels["user"] || filter["job/name"] != labels["job/name"] {
			t.Fatalf("%q is printed %s and read as the filter %q", labels, render.LabelsText(labels), filter)
		}
		if back, err := SelectorArg(accepted(render.SelectorText(labels))); err != nil || back["user"] != labels["user"] || back["job/name"] != labels["job/name"] {
			t.Fatalf("%q is printed %s and read as the selector %q, %v", labels, render.SelectorText(labels), back, err)
		}
		account, _ := strings.CutPrefix(render.AccountText(&bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: labels}), "quota ")
		if back, err := SelectorArg(account); err != nil || back["user"] != labels["user"] {
			t.Fatalf("the account of %q is printed %s and read as %q, %v", labels, account, back, err)
		}

		// Queues: of accounts, in the tree, in completions, and as parts of requests and limits.
		at := resource.Address{Kind: "yarn", Cluster: anyName(1, 6).Draw(t, "cluster"), Path: queuePath().Draw(t, "path"), Partition: anyName(0, 6).Draw(t, "partition")}
		name := &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUEUE, Labels: map[string]string{"kind": at.Kind, "cluster": at.Cluster, "path": at.Path, "partition": at.Partition}}
		queue, _ := strings.CutPrefix(render.AccountText(name), "queue ")
		if back, err := QueueArg(accepted(queue)); err != nil || back != at {
			t.Fatalf("%q is printed %s and read as %q, %v", at, queue, back, err)
		}
		if kind, cluster, err := ClusterArg(accepted(render.ClusterText(at.Kind, at.Cluster))); err != nil || kind != at.Kind || cluster != at.Cluster {
			t.Fatalf("%q is printed %s and read as %q, %v", at.Cluster, render.ClusterText(at.Kind, at.Cluster), cluster, err)
		}
		var parts []resource.External
		part := resource.NewResource(resource.Vector{}).WithPart(at, resource.Vector{}.WithMemory(1<<30).With("yarn.io/gpu", 2))
		set(t, ExternalFlag{Parts: &parts}, "external", accepted(part.String()))
		if len(parts) != 1 || !parts[0].Equal(part.External[0]) {
			t.Fatalf("%q is printed %s and read as %q", at, part, parts)
		}
		limit := at
		limit.Partition, limit.Cluster = "", "prod"
		var limits []resource.External
		set(t, ExternalFlag{&limits, true}, "external", accepted(limit.String()+",memory=1GiB"))
		if len(limits) != 1 || limits[0].Address != limit {
			t.Fatalf("the limit of %q is printed %s and read as %q", limit, limit, limits)
		}

		// Ids that clusters give.
		ids := rapid.SliceOfN(anyName(1, 8), 1, 3).Draw(t, "ids")
		var back []string
		set(t, NamesFlag{&back, "id"}, "application", accepted(render.NamesText(ids)))
		if !slices.Equal(back, ids) {
			t.Fatalf("%q are printed %s and read as %q", ids, render.NamesText(ids), back)
		}
	})
	// All at once, quoted for the shell.
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = spelling.Shell(word)
	}
	for chunk := range slices.Chunk(quoted, 200) {
		at := slices.Index(quoted, chunk[0])
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+strings.Join(chunk, " ")).Output()
		if want := strings.Join(words[at:at+len(chunk)], "\n") + "\n"; err != nil || string(out) != want {
			t.Fatalf("a shell reads %q as %q, %v", chunk, out, err)
		}
		quoted, words = quoted[at+len(chunk):], words[at+len(chunk):]
	}
}

// What a terminal does not show, or acts on, is not printed as it is.
func TestNamesThatLookAlikeArePrintedApart(t *testing.T) {
	names := []string{"a", "a ", " a", "a\u3164", "a\u200b", "\u202ea", "a\u00a0", "a\u3000", `"a"`, `a\`}
	seen := map[string]string{}
	for _, name := range names {
		for _, text := range []string{render.LabelsText(map[string]string{"k": name}), resource.Address{Kind: "yarn", Cluster: "c", Path: name}.String()} {
			if before, twice := seen[text]; twice || render.Printable(text) != text || strings.TrimSpace(text) != text {
				t.Errorf("%q is printed %s, as %q is", name, text, before)
			}
			seen[text] = name
		}
	}
}

// The form of before, with backslashes, is refused and not read as another name.
func TestEscapesOfBeforeAreNotReadAsOtherNames(t *testing.T) {
	for _, text := range []string{`user=a\,b`, `user=CORP\\alice`, `user=a\,b=c`} {
		err := LabelFlag{}.Set(text)
		if err == nil || !strings.Contains(err.Error(), "double quotes") {
			t.Errorf("%s: %v", text, err)
		}
	}
	got := LabelFlag{}
	if err := got.Set(`user=CORP\alice`); err != nil || got[label.User] != `CORP\alice` {
		t.Errorf("%q, %v", got, err)
	}
}
