package main

import "github.com/spf13/cobra"

// namesTopic is about how names are written.
func namesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "names",
		Short: "How names are written: users, labels, queues",
		Long: `Write a name as it is. A backslash in it is a backslash:

    bursar quota set 'user=CORP\alice' --memory 64GiB

Put a name in double quotes if it has a character that ends names where it
stands, begins with a double quote, or has blanks at its ends:

  where            such characters
  value of a label    , \\  and a * with others; a \ at the end
  CLUSTER             : , @
  QUEUE, PARTITION    , @
  one of several ids  ,

    --label 'job="a,b"'
    --external 'yarn:prod:"root.users.kim@CORP.a,b",memory=4GiB'
    bursar queues 'yarn:prod:"root.a "@gpu'

Within double quotes \" is a double quote, \\ a backslash, and \u3000 the
character with this number in hexadecimal digits: \U and eight digits for those
above ffff. There are no other escapes. Without double quotes there are none.

Bursar prints names in the same way. What cannot be seen, or changes how others
are shown, is printed with its number, so that "a" and "a\u3164" look different.
You can give each name that it prints back to it. The shell takes quotes and
backslashes away: put single quotes around all of it.

In files of YAML a name is what YAML says. The cluster, path and partition of a
limit may be in double quotes of their own, which a path with a * in it needs:
path: '"root.a*"'. Over the API a name is the text itself.

A queue that no request can name, such as one with an empty name, is in the list
of "bursar queues" with the reason.`,
	}
}
