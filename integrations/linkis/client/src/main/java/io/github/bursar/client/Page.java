package io.github.bursar.client;

import java.util.Collections;
import java.util.List;

/** A page of a list. */
public final class Page<T> {
  private final List<T> items;
  private final String nextPageToken;
  private final long revision;

  Page(List<T> items, String nextPageToken, long revision) {
    this.items = Collections.unmodifiableList(items);
    this.nextPageToken = nextPageToken;
    this.revision = revision;
  }

  /** What is on it. */
  public List<T> items() {
    return items;
  }

  /** Empty on the last page. */
  public String nextPageToken() {
    return nextPageToken;
  }

  /** The ledger's revision at which it was read; watch from the first page's to miss nothing. */
  public long revision() {
    return revision;
  }
}
