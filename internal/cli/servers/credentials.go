package servers

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"strconv"

	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/credential"
)

// credentialFlags name the authorities to trust and the credentials to show. Every command that
// calls a coordinator has them.
type credentialFlags struct {
	TLS       credential.ClientTLS
	TokenFile string
}

func (f *credentialFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.TokenFile, "token-file", "", "file with the bearer token to show (env BURSAR_TOKEN_FILE; or the token itself in BURSAR_TOKEN)")
	flags.StringVar(&f.TLS.CA, "tls-ca", "", "file of the CAs that may have issued the coordinator's certificate (env BURSAR_TLS_CA, default the machine's)")
	flags.StringVar(&f.TLS.Cert, "tls-cert", "", "file of a client certificate to show (env BURSAR_TLS_CERT)")
	flags.StringVar(&f.TLS.Key, "tls-key", "", "file of its private key (env BURSAR_TLS_KEY)")
	flags.StringVar(&f.TLS.ServerName, "tls-server-name", "", "name that the coordinator's certificate must have (env BURSAR_TLS_SERVER_NAME, default its address)")
}

// Credentials are from the command line, or else from the environment.
type Credentials struct {
	TLS   credential.ClientTLS
	Token credential.Token
}

func (f *credentialFlags) OverEnvironment() Credentials {
	return Credentials{
		TLS: credential.ClientTLS{
			CA:         cmp.Or(f.TLS.CA, os.Getenv("BURSAR_TLS_CA")),
			Cert:       cmp.Or(f.TLS.Cert, os.Getenv("BURSAR_TLS_CERT")),
			Key:        cmp.Or(f.TLS.Key, os.Getenv("BURSAR_TLS_KEY")),
			ServerName: cmp.Or(f.TLS.ServerName, os.Getenv("BURSAR_TLS_SERVER_NAME")),
		},
		Token: credential.Token{File: cmp.Or(f.TokenFile, os.Getenv("BURSAR_TOKEN_FILE")), Text: os.Getenv("BURSAR_TOKEN")},
	}
}

// Options reads the files. The error is a *credential.FileError.
func (c Credentials) Options(log *slog.Logger) ([]client.Option, error) {
	return c.OptionsWith(credential.Options{Log: log})
}

// OptionsWith reads the files as how says. The error is a *credential.FileError.
func (c Credentials) OptionsWith(how credential.Options) ([]client.Option, error) {
	var options []client.Option
	if c.TLS.IsSet() {
		shows, err := c.TLS.Open(how)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithCredentials(shows))
	}
	if c.Token.IsSet() {
		token, err := c.Token.Open(how)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithToken(token.Now))
	}
	return options, nil
}

// CredentialError names the flag of a file that cannot be used, or else its variable.
func (f *credentialFlags) CredentialError(err error) error {
	wrong, ok := errors.AsType[*credential.FileError](err)
	if !ok {
		return err
	}
	flag, variable := "", ""
	switch wrong.Field {
	case "tls.ca":
		flag, variable = f.TLS.CA, "BURSAR_TLS_CA"
	case "tls.cert":
		flag, variable = f.TLS.Cert, "BURSAR_TLS_CERT"
	case "tls.key":
		flag, variable = f.TLS.Key, "BURSAR_TLS_KEY"
	case "tokenFile":
		flag, variable = f.TokenFile, "BURSAR_TOKEN_FILE"
		if wrong.File == "" { // the token itself
			variable = "BURSAR_TOKEN"
		}
	}
	if flag != "" || variable == "" || os.Getenv(variable) == "" {
		return failure.Config(&wordsError{err, failure.InFlags(err.Error())})
	}
	return failure.Config(inVariable(wrong, variable))
}

// consulError names Consul's variable for a file that cannot be used: a command has no other
// settings for Consul.
func consulError(wrong *credential.FileError) error {
	variable, known := map[string]string{
		"consul.tokenFile": api.HTTPTokenFileEnvName, "consul.tls.ca": api.HTTPCAFile, "consul.tls.cert": api.HTTPClientCert, "consul.tls.key": api.HTTPClientKey,
	}[wrong.Field]
	if !known {
		return failure.Config(wrong)
	}
	if wrong.Field == "consul.tokenFile" && wrong.File == "" {
		variable = api.HTTPTokenEnvName
	}
	return failure.Config(inVariable(wrong, variable))
}

// inVariable is the error for the value of a variable. If the value is not a file's name, it may
// be a secret and is not shown.
func inVariable(wrong *credential.FileError, variable string) error {
	words := variable + ": "
	if wrong.File != "" {
		words += strconv.Quote(wrong.File) + ": "
	}
	return &wordsError{wrong, words + wrong.Wrong + ": want " + wrong.Want}
}

// wordsError is an error with other words.
type wordsError struct {
	err   error
	words string
}

func (e *wordsError) Error() string { return e.words }

func (e *wordsError) Unwrap() error { return e.err }
