package yarn

import "github.com/bursar/bursar/providers"

// Names of the settings, without those of a pace.
const (
	settingAddresses        = "addresses"
	settingSite             = "site"
	settingBasePath         = "basePath"
	settingAuth             = "auth"
	settingUser             = "user"
	settingPasswordFile     = "passwordFile"
	settingPrincipal        = "principal"
	settingKeytab           = "keytab"
	settingKrb5Conf         = "krb5Conf"
	settingServicePrincipal = "servicePrincipal"
	settingCA               = "ca"
	settingCertificate      = "certificate"
	settingKey              = "key"
	settingMaxBytes         = "maxBytes"
	settingInsecure         = "insecure"
)

// Settings are those of a YARN cluster, without the ones that every kind has.
func Settings() []providers.Setting {
	return []providers.Setting{
		{Name: settingAddresses, Type: providers.Text, Doc: "The web addresses of all its ResourceManagers, with commas between them: http://rm1:8088,https://rm2:8090. " +
			"This or site is needed."},
		{Name: settingSite, Type: providers.File, Doc: "The yarn-site.xml that has the addresses, instead of them; read at the start."},
		{Name: settingBasePath, Type: providers.Text, Doc: "What stands before /scheduler. Default " + defaultBasePath + ". Behind Knox /gateway/TOPOLOGY/resourcemanager/v1/cluster."},
		{Name: settingAuth, Type: providers.Text, Doc: "How we say who we are: none; simple, a user name that nobody checks; basic, a user name and a password; or kerberos, SPNEGO with a keytab. " +
			"Default: none, or simple where user is set."},
		{Name: settingUser, Type: providers.Text, Doc: "The user name for simple and basic."},
		{Name: settingPasswordFile, Type: providers.File, Doc: "The password for basic, and nothing else, in one line. It must not be readable for everybody (0600 or 0640)."},
		{Name: settingPrincipal, Type: providers.Text, Doc: "Who we are for kerberos, such as bursar@EXAMPLE.COM; without a realm in the default realm of krb5Conf."},
		{Name: settingKeytab, Type: providers.File, Doc: "The keytab of principal. It must not be readable for everybody."},
		{Name: settingKrb5Conf, Type: providers.File, Doc: "Where realms and KDCs are. Default " + defaultKrb5Conf + "."},
		{Name: settingServicePrincipal, Type: providers.Text, Doc: "The principal of the ResourceManagers, without a realm; _HOST stands for the host of the address. Default HTTP/" + hostPattern + "."},
		{Name: settingCA, Type: providers.File, Doc: "The CAs that may have issued the certificates of https addresses, in PEM. Default: those that the machine trusts."},
		{Name: settingCertificate, Type: providers.File, Doc: "Our own certificate for https, in PEM. Default: none."},
		{Name: settingKey, Type: providers.File, Doc: "Its private key in PEM. It must not be readable for everybody."},
		{Name: settingMaxBytes, Type: providers.Size, Doc: "The longest answer that is read. Default 64MiB, which is 18 times what 500 queues take; 64KiB to 4GiB."},
		{Name: settingInsecure, Type: providers.Flag, Doc: "Lets a password cross the network over http, for everybody on the way to read. Default false."},
	}
}

// settingNames are all of them, in the order in which they are shown.
func settingNames() []string {
	return providers.SettingNames(append(Settings(), providers.PaceSettings()...))
}
