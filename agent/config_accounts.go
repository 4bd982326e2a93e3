package agent

import (
	"fmt"
	"slices"
	"strconv"
)

// DefaultMinUserID is the least uid that another account may have if engines are to run as it: as
// in YARN, lesser uids are those of the system.
const DefaultMinUserID = 1000

// defaultBannedUsers are those of YARN: accounts of its daemons.
func defaultBannedUsers() []string { return []string{"hdfs", "yarn", "mapred", "bin"} }

// checkAccounts fills in and checks the accounts that engines may run as.
func (s *settings) checkAccounts() error {
	e := &s.Engines
	e.MinUserID = orDefault(e.MinUserID, DefaultMinUserID)
	if e.BannedUsers == nil {
		e.BannedUsers = defaultBannedUsers()
	}
	if e.MinUserID < 1 || e.MinUserID >= 1<<32-1 {
		return &ConfigError{"engines.minUserId", strconv.FormatInt(e.MinUserID, 10), "1 to 4294967294; 1 allows every account but root"}
	}
	if err := e.Remote.check(); err != nil {
		return err
	}
	for field, names := range map[string][]string{
		"engines.systemUsers": e.SystemUsers, "engines.bannedUsers": e.BannedUsers, "engines.remote.accounts": e.Remote.Accounts, "engines.remote.deniedGroups": e.Remote.DeniedGroups,
	} {
		if i := slices.Index(names, ""); i >= 0 {
			return &ConfigError{fmt.Sprintf("%s[%d]", field, i), "", "the name of an account"}
		}
	}
	return nil
}
