package commit

import (
	"slices"
	"unsafe"
)

// Form is one of the forms in which an event is sent. The sender defines the meaning of its fields.
type Form struct {
	// Message is the kind of message.
	Message uint8
	// Whole says that the form includes the fields that only some callers may see.
	Whole bool
	// Codec is the name of the encoding.
	Codec string
}

// encoding is the encoding of an event in one form.
type encoding struct {
	form Form
	text []byte
}

// encodedPart is the part of a feed's bytes that encodings may take. It is small, because encodings
// take room from events, which a watcher may want to resume from, and because only readers at about
// the same speed share encodings.
const encodedPart = 8

// Encoded returns the event in a form. It calls encode if the feed does not have this form, or no
// longer. The text is shared: callers must not change it, and encode must not keep it. Any
// goroutine may call it.
func (e *Event) Encoded(form Form, encode func() ([]byte, error)) ([]byte, error) {
	if text := e.find(form); text != nil {
		return text, nil
	}
	e.encoding.Lock()
	defer e.encoding.Unlock()
	if text := e.find(form); text != nil {
		return text, nil
	}
	text, err := encode()
	if err != nil {
		return nil, err
	}
	e.feed.keep(e, encoding{form, text})
	return text, nil
}

// find returns the encoding in a form; nil if there is none.
func (e *Event) find(form Form) []byte {
	kept := e.encodings.Load()
	if kept == nil {
		return nil
	}
	for i := range *kept {
		if (*kept)[i].form == form {
			return (*kept)[i].text
		}
	}
	return nil
}

// keep stores an encoding with its event, unless the event is too old for that.
func (f *ChangeFeed) keep(e *Event, made encoding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.serial < f.bare {
		return
	}
	var kept []encoding
	if now := e.encodings.Load(); now != nil {
		kept = slices.Clip(*now)
	}
	kept = append(kept, made)
	e.encodings.Store(&kept)
	size := encodingSize(&made)
	f.bytes += size
	f.encoded += size
	for f.encoded > f.most/encodedPart {
		f.stripLocked()
	}
	f.makeRoomLocked(0, 1)
}

// stripLocked drops the encodings of the oldest event that may have any.
func (f *ChangeFeed) stripLocked() {
	e := f.ring[f.bare%uint64(len(f.ring))]
	f.bare++
	kept := e.encodings.Swap(nil)
	if kept == nil {
		return
	}
	for i := range *kept {
		size := encodingSize(&(*kept)[i])
		f.bytes -= size
		f.encoded -= size
	}
}

func encodingSize(e *encoding) int { return int(unsafe.Sizeof(*e)) + len(e.text) }
