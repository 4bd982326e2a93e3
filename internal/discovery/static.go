package discovery

import "slices"

// Static returns a Finder for a configured list. The list keeps the given order, names no leader,
// and never changes. The error is a *URLError, the first one.
func Static(urls []string) (Finder, error) {
	if len(urls) == 0 {
		return nil, &URLError{Want: "at least one coordinator"}
	}
	list := make(static, 0, len(urls))
	for _, text := range urls {
		base, err := ParseURL(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, Coordinator{URL: base}) {
			return nil, &URLError{URL: text, Want: "every coordinator once"}
		}
		list = append(list, Coordinator{URL: base})
	}
	return list, nil
}

type static []Coordinator

func (s static) Coordinators() (list []Coordinator, changed <-chan struct{}) { return s, nil }
