package yarn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/spnego"

	"github.com/bursar/bursar/internal/credential"
)

// kerberos proves by tickets of a KDC who we are. The library's goroutine renews the
// ticket-granting ticket before it ends. If it cannot be renewed, a new one is got with the
// keytab. The library's own HTTP client is not used: it asks without end if a server never has
// enough, and is for one goroutine.
type kerberos struct {
	service string // may hold _HOST
	files   *credential.FileSet[kerberosFiles]

	// turn holds one token while no ticket is being made. The library knows no context, so a
	// caller waits with its own: if that ends, the request goes on in the background, and its
	// ticket is there for the next caller.
	turn   chan struct{}
	made   *kerberosClient // the holder of the turn
	closed sync.Once
}

// kerberosFiles is what the keytab and krb5.conf say.
type kerberosFiles struct {
	config      *config.Config
	keytab      *keytab.Keytab
	name, realm string // of the principal
}

// kerberosClient is the library's client, and the files that it was made of.
type kerberosClient struct {
	of     *kerberosFiles
	client *client.Client
}

func openKerberos(s settings, now func() time.Time) (authenticator, error) {
	conf := credential.File{Field: settingKrb5Conf, Path: s.krb5Conf, Want: "a krb5.conf with the realm of the principal and its KDCs"}
	keys := credential.File{Field: settingKeytab, Path: s.keytab, Secret: true, Want: "a keytab with a key of the principal"}
	files, err := credential.OpenFileSet([]credential.File{conf, keys}, credential.Options{Now: now}, func(contents [][]byte) (kerberosFiles, error) {
		return readKerberosFiles(s.principal, conf, keys, contents)
	})
	if err != nil {
		return nil, fileSetting(err, nil)
	}
	k := &kerberos{service: s.servicePrincipal, files: files, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k, nil
}

// readKerberosFiles looks for the principal in both.
func readKerberosFiles(principal string, conf, keys credential.File, contents [][]byte) (kerberosFiles, error) {
	var read kerberosFiles
	var err error
	read.config, err = config.NewFromString(string(contents[0]))
	// such as includedir, which does no harm
	if _, unsupported := errors.AsType[config.UnsupportedDirective](err); err != nil && !unsupported {
		return read, conf.Wrong("cannot be read: "+err.Error(), err)
	}
	// Over TCP alone: over UDP a KDC that does not answer is noticed after 5 s only, and large
	// tickets do not fit.
	read.config.LibDefaults.UDPPreferenceLimit = 1
	read.name, read.realm, _ = strings.Cut(principal, "@")
	if read.realm == "" {
		if read.realm = read.config.LibDefaults.DefaultRealm; read.realm == "" {
			return read, conf.Wrong("has no default_realm, and the principal names no realm", nil)
		}
	}
	if read.keytab, err = parseKeytab(contents[1]); err != nil {
		return read, keys.Wrong("is no keytab", err)
	}
	var others []string
	for _, entry := range read.keytab.Entries {
		own := strings.Join(entry.Principal.Components, "/") + "@" + entry.Principal.Realm
		if own == read.name+"@"+read.realm {
			return read, nil
		}
		if !slices.Contains(others, own) && len(others) < 8 {
			others = append(others, own)
		}
	}
	return read, keys.Wrong(fmt.Sprintf("has no key of %s@%s, but of %q", read.name, read.realm, others), nil)
}

// parseKeytab bears with the library, which goes beyond the end of some files that break off.
func parseKeytab(content []byte) (keys *keytab.Keytab, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it breaks off")
		}
	}()
	keys = keytab.New()
	return keys, keys.Unmarshal(content)
}

func (k *kerberos) transport(base http.RoundTripper, at address) http.RoundTripper {
	return negotiate{base: base, tickets: k, service: strings.ReplaceAll(k.service, hostPattern, at.host())}
}

// hide has nothing to hide: a token is good once.
func (*kerberos) hide(text string) string { return text }

// errClosed answers a caller after the end.
var errClosed = errors.New("the provider is closed")

// token makes a token. The error is a *KerberosError, or that of the context.
func (k *kerberos) token(ctx context.Context, service string) (string, error) {
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for a ticket: %w", ctx.Err())
	case _, open := <-k.turn:
		if !open {
			return "", errClosed
		}
	}
	type result struct {
		token string
		err   error
	}
	done := make(chan result, 1)
	var fallen faults
	go func() { // close waits for it: it has the turn
		defer func() { k.turn <- struct{}{} }()
		defer fallen.catch(func() { done <- result{} })
		token, err := k.make(service)
		done <- result{token, err}
	}()
	select {
	case <-ctx.Done():
		return "", &KerberosError{Setting: settingKrb5Conf, Advice: "the KDC takes too long", Err: ctx.Err()}
	case made := <-done:
		fallen.rethrow()
		return made.token, made.err
	}
}

// make may be called by the holder of the turn. It takes as long as the library gives each KDC: 5
// s to connect and 5 s to answer.
func (k *kerberos) make(service string) (string, error) {
	files := k.files.Get()
	if k.made == nil || k.made.of != files {
		k.forget()
		k.made = &kerberosClient{of: files, client: client.NewWithKeytab(files.name, files.realm, files.keytab, files.config, client.DisablePAFXFAST(true))}
	}
	request := &http.Request{Header: http.Header{}}
	if err := spnego.SetSPNEGOHeader(k.made.client, request, service); err != nil {
		return "", kerberosError(err, service)
	}
	return strings.TrimPrefix(request.Header.Get("Authorization"), "Negotiate "), nil
}

// forget ends the client, with its goroutine. The holder of the turn may call it.
func (k *kerberos) forget() {
	if k.made != nil {
		k.made.client.Destroy()
		k.made = nil
	}
}

// close waits until no ticket is being made, which is bounded, and forgets all tickets.
func (k *kerberos) close() {
	k.closed.Do(func() {
		<-k.turn
		k.forget()
		close(k.turn)
	})
}
