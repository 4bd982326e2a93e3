package subuid

import (
	"slices"
	"strconv"
)

// Names are the accounts that a machine knows. An error says that the answer is not known.
type Names struct {
	// NameOf is the name of a uid's account; empty: there is none.
	NameOf func(uid uint32) (name string, err error)
	// IsName reports whether an account has the name.
	IsName func(name string) (bool, error)
}

// mostOwners bounds how many ranges of uids without an account are followed to their owners.
const mostOwners = 16

// Charged is the user who is charged for a uid, if that is another user: the owner of the
// range of subordinate ids that the uid is in. Otherwise user is empty. It is the only place that
// decides this, and it says nothing about rights: a uid acts as itself. hasName says that the uid
// has an account: then nobody else is charged for it, even if it is in a range. If ranges overlap,
// the first one of the file counts.
//
// An owner that is a number is the account with that name, or otherwise the account with that uid.
// An owner without an account can itself be in a range: then the owner of that range is charged. If
// such ranges are in each other, all of their ids are charged to the least of these owners. After
// mostOwners such owners the last one is charged.
//
// Without functions in names no number is an account. The only errors are theirs: then the user who
// is charged is not known.
func (f *File) Charged(uid uint32, hasName bool, names Names) (user string, other bool, err error) {
	if hasName {
		return "", false, nil
	}
	passed := []uint32{uid}
	for len(passed) <= mostOwners {
		owner, in := f.ownerOf(passed[len(passed)-1])
		if !in {
			break
		}
		number, is := ownerUID(owner)
		if !is {
			return owner, true, nil
		}
		if account, err := names.ofNumber(owner, number); err != nil || account != "" {
			return account, err == nil, err
		}
		if at := slices.Index(passed, number); at >= 0 {
			passed = []uint32{uid, slices.Min(passed[at:])}
			break
		}
		passed = append(passed, number)
	}
	if last := passed[len(passed)-1]; last != uid {
		return strconv.FormatUint(uint64(last), 10), true, nil
	}
	return "", false, nil
}

// ofNumber is the account that an owner of digits is; empty: none.
func (n Names) ofNumber(text string, number uint32) (account string, err error) {
	if n.IsName != nil {
		switch is, err := n.IsName(text); {
		case err != nil:
			return "", err
		case is:
			return text, nil
		}
	}
	if n.NameOf == nil {
		return "", nil
	}
	return n.NameOf(number)
}

// ownerUID reads an owner that is a uid in digits, as newuidmap(1) takes it.
func ownerUID(owner string) (uid uint32, ok bool) {
	number, err := strconv.ParseUint(owner, 10, 32)
	return uint32(number), err == nil && strconv.FormatUint(number, 10) == owner
}

// ownerOf is the owner of the first range that a uid is in.
func (f *File) ownerOf(uid uint32) (owner string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readLocked()
	for _, s := range f.ranges {
		if id := uint64(uid); id >= s.first && id-s.first < s.count {
			return s.owner, true
		}
	}
	return "", false
}
