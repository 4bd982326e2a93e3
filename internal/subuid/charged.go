package subuid

import (
	"slices"
	"strconv"
)

// Names are the accounts that a machine knows.
type Names struct {
	// NameOf is the name of a uid's account; false: there is none, or it is not known.
	NameOf func(uid uint32) (name string, ok bool)
	// UIDOf is the uid of a name; false: no account has it, or it is not known.
	UIDOf func(name string) (uid uint32, ok bool)
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
func (f *File) Charged(uid uint32, hasName bool, names Names) (user string, other bool) {
	if hasName {
		return "", false
	}
	passed := []uint32{uid}
	for len(passed) <= mostOwners {
		owner, in := f.ownerOf(passed[len(passed)-1])
		if !in {
			break
		}
		number, is := ownerUID(owner)
		if !is || names.UIDOf != nil && named(names, owner) {
			return owner, true
		}
		if names.NameOf != nil {
			if name, ok := names.NameOf(number); ok {
				return name, true
			}
		}
		if at := slices.Index(passed, number); at >= 0 {
			passed = []uint32{uid, slices.Min(passed[at:])}
			break
		}
		passed = append(passed, number)
	}
	if last := passed[len(passed)-1]; last != uid {
		return strconv.FormatUint(uint64(last), 10), true
	}
	return "", false
}

func named(names Names, text string) bool {
	_, ok := names.UIDOf(text)
	return ok
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
