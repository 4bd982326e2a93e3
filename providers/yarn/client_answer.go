package yarn

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

const (
	// maxSaid is how much of an error page is read, in bytes.
	maxSaid = 16 << 10
	// maxShown is how much of an error page is shown, in bytes. maxError is the limit for an error:
	// a certificate may have many names.
	maxShown = 240
	maxError = 480
)

// checkAnswer distinguishes an answer from the other responses of an active or standby
// ResourceManager, or of a proxy before it:
//
//	standby, Hadoop 2.7.0 and before    200, Refresh, text "This is standby RM. Redirecting to …"
//	standby, from 2.7.1 on              307, Location, text "This is standby RM. The redirect url is: …"
//	standby and no active one           307, Refresh, no Location, text "Can not find any active RM. …";
//	                                    later 200 "There is no active RM …"
//	an exception                        400, 401, 403, 404, 500 with JSON {"RemoteException": …};
//	                                    while becoming active 503
//	unauthenticated                     401 with WWW-Authenticate; 403 for a bad ticket; both with HTML
//
// The error is a *ServerError; it is nil if there is JSON to read.
func (s *server) checkAnswer(response *http.Response) error {
	wrong := s.failed("", nil)
	wrong.Status = response.StatusCode
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		wrong.Trouble, wrong.Err = Senseless, errors.New("a compressed answer, which was not asked for")
		return wrong
	}
	isJSON := jsonType(response.Header.Get("Content-Type"))
	if isJSON && response.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxSaid)) // a partial text is good enough
	if isJSON {
		wrong.Said = s.forLog(remoteException(text))
	} else {
		wrong.Said = s.forLog(plainText(string(text)))
	}
	switch code := response.StatusCode; {
	case strings.Contains(string(text), "standby RM"), strings.Contains(string(text), "active RM"), response.Header.Get("Refresh") != "",
		code == http.StatusTemporaryRedirect:
		wrong.Trouble = NotInCharge
		if wrong.Said == "" {
			wrong.Said = s.forLog(redirection(response))
		}
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		wrong.Trouble, wrong.Err = NotAllowed, s.wanted(response)
	case code >= 300 && code < 400:
		wrong.Trouble, wrong.Err = Senseless, errors.New(s.forLog(redirection(response))+", which is not followed: see the settings "+settingAddresses+", "+settingBasePath+" and "+settingAuth)
	case code == http.StatusNotFound && isJSON && strings.Contains(string(text), "RemoteException"):
		wrong.Trouble = NoSuch
	case code == http.StatusNotFound:
		wrong.Trouble, wrong.Err = Senseless, errors.New("there is no "+s.base+": see the setting "+settingBasePath)
	case code >= 500:
		wrong.Trouble = Failing
	case code == http.StatusOK && isXML(strings.TrimSpace(string(text))):
		wrong.Trouble, wrong.Said, wrong.Err = Senseless, "", errors.New("it answers in XML: "+wantJSON)
	case code == http.StatusOK:
		wrong.Trouble, wrong.Err = Senseless, errors.New("an answer of type "+s.forLog(response.Header.Get("Content-Type"))+", not JSON")
	default:
		wrong.Trouble = Senseless
	}
	return wrong
}

// wanted returns which authentication a server or proxy demands; nil if the response does not tell.
func (s *server) wanted(response *http.Response) error {
	if response.StatusCode == http.StatusProxyAuthRequired {
		return errors.New("the proxy wants a user and a password: see the settings " + settingProxyUser + " and " + settingProxyPasswordFile)
	}
	if offered := schemes(response); offered != "" {
		return errors.New("it wants " + s.forLog(offered) + ": see the setting " + settingAuth)
	}
	return nil
}

// malformedAnswer makes the error about an answer that cannot be decoded.
func (s *server) malformedAnswer(err error) *ServerError {
	made := s.failed(Senseless, err)
	if refused, ok := errors.AsType[*AnswerError](err); ok {
		switch refused.Refusal {
		case Standby, NoneActive:
			made.Trouble = NotInCharge
		case RemoteException:
			made.Trouble = Failing
		default:
		}
	}
	return made
}

// jsonType reports whether a content type is JSON, with or without a character set: Hadoop 2 sends
// none.
func jsonType(text string) bool {
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && kind == "application/json"
}

// redirection describes the target of a redirect, without its query, which may hold a secret.
func redirection(response *http.Response) string {
	at, err := url.Parse(response.Header.Get("Location"))
	if err != nil || at.Host == "" {
		return "it leads nowhere"
	}
	return "it leads to " + at.Scheme + "://" + at.Host + at.EscapedPath()
}

// schemes lists the authentication schemes that a server offers, without their parameters.
func schemes(response *http.Response) string {
	var list []string
	for _, value := range response.Header.Values("WWW-Authenticate") {
		if scheme, _, _ := strings.Cut(strings.TrimSpace(value), " "); scheme != "" && len(scheme) <= 32 {
			list = append(list, scheme)
		}
	}
	return strings.Join(list, ", ")
}

// remoteException returns the message of an exception, or the whole text if there is none.
func remoteException(text []byte) string {
	var answer struct {
		RemoteException struct {
			Exception string `json:"exception"`
			Message   string `json:"message"`
		} `json:"RemoteException"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.RemoteException.Exception == "" {
		return string(text)
	}
	return answer.RemoteException.Exception + ": " + answer.RemoteException.Message
}

// plainText removes the markup and the invisible parts of a page.
func plainText(page string) string {
	var b strings.Builder
	for page != "" {
		text, rest, found := strings.Cut(page, "<")
		b.WriteString(text + " ")
		if !found {
			break
		}
		for _, hidden := range []string{"style", "script", "head"} {
			if len(rest) > len(hidden) && strings.EqualFold(rest[:len(hidden)], hidden) && (rest[len(hidden)] == '>' || rest[len(hidden)] == ' ') {
				if i := strings.Index(strings.ToLower(rest), "</"+hidden); i >= 0 {
					rest = rest[i:]
				}
			}
		}
		_, page, _ = strings.Cut(rest, ">")
	}
	return b.String()
}

// forLog makes a server's text safe to show: one line, bounded, without our secrets. It removes
// secrets before it truncates, so that no part of a secret remains.
func (s *server) forLog(text string) string { return spelling.Line(s.hide(text), maxShown) }
