package main

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

// credentialFlags say whom to trust and what to show. Every command that calls a coordinator has
// them.
type credentialFlags struct {
	tls       credential.ClientTLS
	tokenFile string
}

func (f *credentialFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token to show (env BURSAR_TOKEN_FILE; or the token itself in BURSAR_TOKEN)")
	flags.StringVar(&f.tls.CA, "tls-ca", "", "file of the CAs that may have issued the coordinator's certificate (env BURSAR_TLS_CA, default the machine's)")
	flags.StringVar(&f.tls.Cert, "tls-cert", "", "file of a client certificate to show (env BURSAR_TLS_CERT)")
	flags.StringVar(&f.tls.Key, "tls-key", "", "file of its private key (env BURSAR_TLS_KEY)")
	flags.StringVar(&f.tls.ServerName, "tls-server-name", "", "name that the coordinator's certificate must have (env BURSAR_TLS_SERVER_NAME, default its address)")
}

// credentials are from the command line, and for what it leaves out from the environment.
type credentials struct {
	tls   credential.ClientTLS
	token credential.Token
}

func (f *credentialFlags) overEnvironment() credentials {
	return credentials{
		tls: credential.ClientTLS{
			CA:         cmp.Or(f.tls.CA, os.Getenv("BURSAR_TLS_CA")),
			Cert:       cmp.Or(f.tls.Cert, os.Getenv("BURSAR_TLS_CERT")),
			Key:        cmp.Or(f.tls.Key, os.Getenv("BURSAR_TLS_KEY")),
			ServerName: cmp.Or(f.tls.ServerName, os.Getenv("BURSAR_TLS_SERVER_NAME")),
		},
		token: credential.Token{File: cmp.Or(f.tokenFile, os.Getenv("BURSAR_TOKEN_FILE")), Text: os.Getenv("BURSAR_TOKEN")},
	}
}

// options reads the files. The error is a *credential.FileError.
func (c credentials) options(log *slog.Logger) ([]client.Option, error) {
	return c.optionsWith(credential.Options{Log: log})
}

func (c credentials) optionsWith(how credential.Options) ([]client.Option, error) {
	var options []client.Option
	if c.tls.IsSet() {
		shows, err := c.tls.Open(how)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithCredentials(shows))
	}
	if c.token.IsSet() {
		token, err := c.token.Open(how)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithToken(token.Now))
	}
	return options, nil
}

// credentialError names the flag of a file that cannot be used, or else its variable.
func (f *credentialFlags) credentialError(err error) error {
	wrong, ok := errors.AsType[*credential.FileError](err)
	if !ok {
		return err
	}
	flag, variable := "", ""
	switch wrong.Field {
	case "tls.ca":
		flag, variable = f.tls.CA, "BURSAR_TLS_CA"
	case "tls.cert":
		flag, variable = f.tls.Cert, "BURSAR_TLS_CERT"
	case "tls.key":
		flag, variable = f.tls.Key, "BURSAR_TLS_KEY"
	case "tokenFile":
		flag, variable = f.tokenFile, "BURSAR_TOKEN_FILE"
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
