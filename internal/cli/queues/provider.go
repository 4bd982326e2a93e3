package queues

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/regularfile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/yarn"
)

// addressesSetting is the setting that gets the addresses of a site file.
const addressesSetting = "addresses"

func providerCommand(c *servers.Connections) *cobra.Command {
	return cmdline.Family("provider", "Add and change the clusters whose queues limit requests",
		`Provider commands say which clusters have queues for requests, and how they are
read. A provider is a kind, a name for the cluster and settings.

The settings of yarn, of which addresses or site is needed:

  addresses   its ResourceManagers, in order, with commas between them:
              http://rm1:8088,https://rm2:8090
  site        instead: the yarn-site.xml on the coordinators' machines that
              has them
  basePath    what stands before /scheduler; default /ws/v1/cluster; for Knox
              /gateway/NAME/resourcemanager/v1/cluster
  auth        none, simple, basic, bearer or kerberos; default none, or simple
              if user is set
  user        for simple (user.name) and basic
  passwordFile, tokenFile
              files with the secrets for basic and for bearer
  principal, keytab, krb5Conf, servicePrincipal
              for kerberos; default of krb5Conf /etc/krb5.conf, of
              servicePrincipal HTTP/ and the host of the address
  ca, certificate, key
              files for https
  proxy, proxyUser, proxyPasswordFile
              an HTTP proxy before them, such as http://proxy:3128
  maxBytes    the limit for the size of one answer; default 64MiB
  requestsPerMinute
              the most requests in a minute; default 1200
  insecure    true: a password or token may cross the network without TLS
  am          what the master of an application takes if the request does not
              say it; default memory=1GiB,cpu=1
  userLabel   the label that names the user in YARN; default user
  calculator  default, dominant or detect: whether cores limit; default detect
  smallestContainer
              such as memory=1GiB,cpu=1: YARN rounds masters and limits of
              users up to it
  containerStep
              the step in which YARN rounds, if it is not smallestContainer
  amShare     the FairScheduler's maxAMShare; default 0.5
  undeclaredQueues
              parents below which a queue is made by using it: any (default),
              none, or full paths: root.users,root.adhoc
  growsTo     how large an autoscaler makes the cluster at most, such as
              memory=10TiB,cpu=2000: a request that fits only then waits
  awaitStarts true: requests for a queue wait while YARN holds applications
              back there

The settings of exec, a command that prints queues as JSON; they must be in a
file of providers (docs/providers.md says what the command prints):

  command     the program, by its whole path, and its arguments, as a list
  user        the user that it runs as, never root
  environment
              variables that it gets, as a list: NAME, or NAME=VALUE
  directory   its working directory; default /
  maxBytes    the most that it may print; default 4MiB
  userLabel   the label that names the user there; default user

and of every kind:

  interval    how often it is asked; default 5s, at least 2s
  timeout     for one reading; default 10s
  maxAge      how long an answer is good; default 30s, at least two intervals
  settle      after this time the queue is assumed to show an engine without
              an application id; default 1m

No setting is a secret itself. Settings name files on the coordinators'
machines, in the directory that the coordinators' configuration calls
providerCredentials. Providers from a file (providersFile, or "bursar dev
--providers") are changed in that file; "bursar queues check -f FILE" tests it.`,
		providerSetCommand(c), providerDeleteCommand(c), providerCheckCommand(c))
}

// providerFlags say how a cluster is read.
type providerFlags struct {
	isDefault bool
	site      string
}

func providerSetCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set KIND:CLUSTER NAME=VALUE…",
		Short: "Add a cluster, or replace how it is read",
		Long: `Set adds a cluster. If it is known already, set replaces all of its settings: a
setting that is not named has its default. Set does not ask the cluster first:
use "bursar provider check" before. After a change nothing is known of its
queues until it has been read again.

--site takes the addresses of all ResourceManagers from a yarn-site.xml on this
machine.`,
		Example: `  bursar provider set yarn:prod addresses=http://rm1:8088,http://rm2:8088
  bursar provider set yarn:prod --default --site /etc/hadoop/conf/yarn-site.xml
  bursar provider set yarn:secure --site yarn-site.xml auth=kerberos \
    principal=bursar@EXAMPLE.COM keytab=/etc/bursar/credentials/bursar.keytab
  bursar provider set yarn:knox addresses=https://knox:8443 \
    basePath=/gateway/prod/resourcemanager/v1/cluster auth=basic user=bursar \
    passwordFile=/etc/bursar/credentials/knox ca=/etc/bursar/credentials/ca.pem`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteProviders(c),
	}
	var f providerFlags
	cmd.Flags().BoolVar(&f.isDefault, "default", false, "requests that name no cluster mean this one")
	f.addSite(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.provider(args)
		if err != nil {
			return err
		}
		if len(p.GetSettings()) == 0 {
			return failure.Usagef("no settings: want NAME=VALUE, such as addresses=http://rm:8088, or --site FILE; see: bursar provider --help")
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		res, err := cl.Queues().PutProvider(cmd.Context(), &bursarv1.PutProviderRequest{Provider: p})
		if err != nil {
			return err
		}
		return c.Print(res.GetProvider(), func() { c.Printf("%s\n", providerLine(res.GetProvider())) })
	}
	return cmd
}

func (f *providerFlags) addSite(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "yarn-site.xml to take the addresses from")
	_ = cmd.MarkFlagFilename("site", "xml")
}

// provider reads KIND:CLUSTER NAME=VALUE….
func (f *providerFlags) provider(args []string) (*bursarv1.Provider, error) {
	kind, cluster, err := cmdline.ClusterArg(args[0])
	if err != nil {
		return nil, err
	}
	p := &bursarv1.Provider{Kind: kind, Cluster: cluster, Default: f.isDefault, Settings: make(map[string]string)}
	for _, pair := range args[1:] {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, failure.Usagef("%q: want NAME=VALUE, such as addresses=http://rm:8088", pair)
		}
		if _, twice := p.GetSettings()[name]; twice {
			return nil, failure.Usagef("%s is there twice: want one value", name)
		}
		p.Settings[name] = value
	}
	if f.site == "" {
		return p, nil
	}
	if _, twice := p.GetSettings()[addressesSetting]; twice {
		return nil, failure.Usagef("--site and %s: want one of them", addressesSetting)
	}
	p.Settings[addressesSetting], err = siteAddresses(f.site)
	return p, err
}

// siteAddresses reads the addresses of all ResourceManagers from a yarn-site.xml.
func siteAddresses(name string) (string, error) {
	file, err := regularfile.OpenInput(name)
	if err != nil {
		return "", cmdline.Unusable(fmt.Errorf("--site: %w", err))
	}
	defer file.Close()
	addresses, err := yarn.AddressesFromSite(file)
	if failure.IsNoFile(err) {
		return "", fmt.Errorf("--site: %w", err)
	}
	if err != nil {
		return "", &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("%s: %w", name, err)}
	}
	return strings.Join(addresses, ","), nil
}

// providerLine is a provider in one line.
func providerLine(p *bursarv1.Provider) string {
	parts := []string{render.ProviderName(p)}
	if p.GetDefault() {
		parts = append(parts, "default")
	}
	return strings.Join(append(parts, settingsText(p.GetSettings())), "  ")
}

func providerDeleteCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "delete KIND:CLUSTER",
		Short: "Stop reading a cluster",
		Long: `Delete stops reading a cluster. What was granted in its queues stays until it is
released; nothing new is granted there. A provider from a file is removed from
that file instead.`,
		Example:           `  bursar provider delete yarn:prod`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteProviders(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, cluster, err := cmdline.ClusterArg(args[0])
			if err != nil {
				return err
			}
			cl, err := c.Coordinator(cmd.Context())
			if err != nil {
				return err
			}
			res, err := cl.Queues().DeleteProvider(cmd.Context(), &bursarv1.DeleteProviderRequest{Kind: kind, Cluster: cluster})
			if err != nil {
				return err
			}
			return c.Print(res, func() { c.Printf("%s deleted\n", render.ClusterText(kind, cluster)) })
		},
	}
}

func providerCheckCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check KIND:CLUSTER [NAME=VALUE…]",
		Short: "Ask a cluster, as it is configured or as it would be",
		Long: `Check makes the coordinator ask every server of a cluster and read its queues,
as it is configured or, with settings, as it would be. It changes nothing. Code
69 means that the cluster cannot be read.`,
		Example: `  bursar provider check yarn:prod
  bursar provider check yarn:new addresses=http://rm1:8088 timeout=3s
  bursar provider check yarn:new --site /etc/hadoop/conf/yarn-site.xml`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteProviders(c),
	}
	var f providerFlags
	f.addSite(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.provider(args)
		if err != nil {
			return err
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		return checkByCoordinator(cmd.Context(), c.Reporter, cl, selection{list: []*bursarv1.Provider{p}})
	}
	return cmd
}
