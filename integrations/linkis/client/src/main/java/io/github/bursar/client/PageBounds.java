package io.github.bursar.client;

import io.github.bursar.client.BursarException.Code;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;

/** Ends the reading of pages that do not end by themselves. */
final class PageBounds {
  private static final int MOST_ITEMS = 1_000_000;
  private static final long LEAST_NANOS = 1_000_000;

  private final long end;
  private final Set<String> seen = new HashSet<>();

  /** With the time for all pages. */
  PageBounds(Duration time) {
    end = System.nanoTime() + time.toNanos();
  }

  /** There is another page. */
  void next(String token, int items) {
    if (!seen.add(token)) {
      throw new BursarException(Code.INTERNAL, "pages do not end: the token " + Json.shorten(token) + " comes twice", false, null);
    }
    if (items > MOST_ITEMS) {
      throw new BursarException(Code.INTERNAL, "pages do not end: there are " + items + " items, want at most " + MOST_ITEMS, false, null);
    }
  }

  /** What is left for the next page. */
  Duration left() {
    long left = end - System.nanoTime();
    if (left <= LEAST_NANOS) {
      throw new BursarException(Code.DEADLINE_EXCEEDED, "not all pages came within the time for the call", true, null);
    }
    return Duration.ofNanos(left);
  }
}
