package io.github.bursar.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * What an apply of a set of rules has changed, or would change. Long lists are cut by the server.
 */
public final class QuotaChanges {
  private final List<Quota> added;
  private final List<Quota> changed;
  private final List<Quota> deleted;
  private final long unchanged;

  private QuotaChanges(JsonNode n) {
    added = quotas(n.path("added"));
    changed = quotas(n.path("changed"));
    deleted = quotas(n.path("deleted"));
    unchanged = Json.longOr0(n, "unchanged");
  }

  static QuotaChanges fromJson(JsonNode n) {
    return new QuotaChanges(n);
  }

  private static List<Quota> quotas(JsonNode n) {
    List<Quota> list = new ArrayList<>();
    n.forEach(q -> list.add(Quota.fromJson(q)));
    return Collections.unmodifiableList(list);
  }

  /** Rules that are new. */
  public List<Quota> added() {
    return added;
  }

  /** Rules that are changed, as they are now. */
  public List<Quota> changed() {
    return changed;
  }

  /** Rules that are removed. */
  public List<Quota> deleted() {
    return deleted;
  }

  /** How many are as they were. */
  public long unchanged() {
    return unchanged;
  }
}
