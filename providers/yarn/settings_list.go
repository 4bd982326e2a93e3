package yarn

import "github.com/bursar/bursar/providers"

// Names of the settings, except those of providers.PaceSettings.
const (
	settingAddresses         = "addresses"
	settingSite              = "site"
	settingBasePath          = "basePath"
	settingAuth              = "auth"
	settingUser              = "user"
	settingPasswordFile      = "passwordFile"
	settingTokenFile         = "tokenFile"
	settingPrincipal         = "principal"
	settingKeytab            = "keytab"
	settingKrb5Conf          = "krb5Conf"
	settingServicePrincipal  = "servicePrincipal"
	settingCA                = "ca"
	settingCertificate       = "certificate"
	settingKey               = "key"
	settingProxy             = "proxy"
	settingProxyUser         = "proxyUser"
	settingProxyPasswordFile = "proxyPasswordFile"
	settingMaxBytes          = "maxBytes"
	settingRequests          = "requestsPerMinute"
	settingInsecure          = "insecure"
	settingAM                = "am"
	settingUserLabel         = "userLabel"
	settingCalculator        = "calculator"
	settingSmallest          = "smallestContainer"
	settingContainerStep     = "containerStep"
	settingAMShare           = "amShare"
	settingUndeclared        = "undeclaredQueues"
	settingGrowsTo           = "growsTo"
	settingAwaitStarts       = "awaitStarts"
)

// Settings lists the settings of a YARN cluster, except those of providers.PaceSettings.
func Settings() []providers.Setting {
	return []providers.Setting{
		{Name: settingAddresses, Type: providers.Text, Doc: "The web addresses of all its ResourceManagers, with commas between them: http://rm1:8088,https://rm2:8090. " +
			"Either this or site is needed."},
		{Name: settingSite, Type: providers.File, Doc: "A yarn-site.xml that has the addresses, if addresses is not set. It is read at the start."},
		{Name: settingBasePath, Type: providers.Text, Doc: "The part of the URL before /scheduler. Default " + defaultBasePath + ". Behind Knox it is /gateway/TOPOLOGY/resourcemanager/v1/cluster."},
		{Name: settingAuth, Type: providers.Text, Doc: "How the coordinator authenticates: none; simple, a user name that nobody checks; basic, a user name and a password; bearer, a token of Knox or CDP; or kerberos, SPNEGO with a keytab. " +
			"Default: simple if user is set, else none."},
		{Name: settingUser, Type: providers.Text, Doc: "The user name for simple and basic."},
		{Name: settingPasswordFile, Type: providers.File, Doc: "A file with the password for basic in one line, and nothing else. It must not be readable for everybody (0600 or 0640)."},
		{Name: settingTokenFile, Type: providers.File, Doc: "A file with the token for bearer in one line, and nothing else. It must not be readable for everybody. A new token in it is used at once."},
		{Name: settingPrincipal, Type: providers.Text, Doc: "The coordinator's own principal for kerberos, such as bursar@EXAMPLE.COM. Without a realm it is in the default realm of krb5Conf."},
		{Name: settingKeytab, Type: providers.File, Doc: "The keytab of the principal. It must not be readable for everybody."},
		{Name: settingKrb5Conf, Type: providers.File, Doc: "The file that names realms and KDCs. Default " + defaultKrb5Conf + "."},
		{Name: settingServicePrincipal, Type: providers.Text, Doc: "The principal of the ResourceManagers, without a realm. _HOST stands for the host of the address. Default HTTP/" + hostPattern + "."},
		{Name: settingCA, Type: providers.File, Doc: "The CAs that may have issued the certificates of https addresses, in PEM. Default: those that the machine trusts."},
		{Name: settingCertificate, Type: providers.File, Doc: "The coordinator's own certificate for https, in PEM. Default: none."},
		{Name: settingKey, Type: providers.File, Doc: "Its private key in PEM. It must not be readable for everybody."},
		{Name: settingProxy, Type: providers.Text, Doc: "An HTTP proxy for all requests to the addresses, such as http://proxy:3128; https goes through a tunnel (CONNECT). Requests to KDCs do not use it. Default: none; the variables HTTP_PROXY and HTTPS_PROXY are not looked at."},
		{Name: settingProxyUser, Type: providers.Text, Doc: "The user name for the proxy, if it asks for one."},
		{Name: settingProxyPasswordFile, Type: providers.File, Doc: "A file with the password for the proxy in one line, and nothing else. It must not be readable for everybody."},
		{Name: settingMaxBytes, Type: providers.Size, Doc: "The longest answer that is read. 500 queues take about 3.5MiB. Default 64MiB; 64KiB to 4GiB."},
		{Name: settingRequests, Type: providers.Text, Doc: "The most requests in a minute, to all servers together. A reading takes one to three; then our applications are asked for, all by one request if they are a good part of the cluster's, else one by one. " +
			"What is held back waits for the next readings, and counts as if it held nothing yet. Default 1200; 60 to 100000."},
		{Name: settingInsecure, Type: providers.Flag, Doc: "Allows a password or a token over http. Then everybody on the way can read it. Default false."},
		{Name: settingAM, Type: providers.Text, Doc: "What the master (AM) of an application takes if a request does not say it (am-memory, am-cpu), as YARN rounds it. It is a part of what the request asks for. " +
			"What Spark asks for in client mode is the default, memory=1GiB,cpu=1; in cluster mode the driver is the master, so such requests should say what that takes."},
		{Name: settingUserLabel, Type: providers.Text, Doc: "The label of a request that names the user that its application runs as in YARN. Queues limit what each user has. What runs as another user counts as others', and no part follows it. Default user. none: users are not known."},
		{Name: settingCalculator, Type: providers.Text, Doc: "The CapacityScheduler's resource-calculator: default, which looks at memory alone, so that cores do not limit; dominant; or detect, from the answers. As long as those prove nothing, cores limit. Default detect."},
		{Name: settingSmallest, Type: providers.Text, Doc: "The smallest container, yarn.scheduler.minimum-allocation-mb and -vcores, such as memory=1GiB,cpu=1. YARN rounds limits of users, and what masters ask for, up to a multiple of it, and no answer tells it. Default: they are not rounded up."},
		{Name: settingContainerStep, Type: providers.Text, Doc: "What YARN rounds containers up to a multiple of, if that is not the smallest container: the FairScheduler's yarn.scheduler.increment-allocation-mb and -vcores, which are memory=1GiB,cpu=1 by default. Default: smallestContainer."},
		{Name: settingAMShare, Type: providers.Text, Doc: "The FairScheduler's maxAMShare: the part of its share of the cluster that a queue's masters may have. Answers do not tell it. From 0 to 1, or -1 if masters are not limited. Default 0.5, which is YARN's."},
		{Name: settingUndeclared, Type: providers.List, Doc: "Below which parent queues YARN makes a queue that it does not have when an application names it, such as root.users.alice. Requests for such a queue are granted. " +
			"any: below all parents of a FairScheduler, as it does by default. none: below none. Or full paths of parents, as a list, or as one text with commas between them (root.users,root.adhoc): below these and the queues below them. They need not be there themselves. " +
			"What a CapacityScheduler's answers say of its own holds in any case. Default any."},
		{Name: settingGrowsTo, Type: providers.Text, Doc: "How large an autoscaler makes the cluster at most, in its default partition, such as memory=10TiB,cpu=2000. Labelled partitions do not grow. " +
			"A request that is too large for its queue today, and not for what that may become, waits (--wait) or is refused for now; else it is refused for good. What is granted goes by the size of today. " +
			"Less than the cluster has changes nothing, and bursar providers says so. Default: it does not grow."},
		{Name: settingAwaitStarts, Type: providers.Flag, Doc: "Whether requests for a queue wait while YARN holds applications back there: some have waited for their first container for 10 s or longer, although the queue has room for it. " +
			"One such application makes all requests for its queue wait. bursar queues shows them in any case. Default false."},
	}
}

// settingNames lists all names, in display order.
func settingNames() []string {
	return providers.SettingNames(append(Settings(), providers.PaceSettings()...))
}
