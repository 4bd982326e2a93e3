package io.github.bursar.client;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * Which allocations a list has. A new one stands for all live ones. Each call returns a changed
 * copy.
 */
public final class AllocationFilter {
  private final Map<String, String> labels = new LinkedHashMap<>();
  private final Set<AllocationState> states = EnumSet.noneOf(AllocationState.class);
  private String hostId = "";
  private boolean ended;
  private Instant endedSince;
  private int pageSize = 500;
  private boolean allowStale;

  private AllocationFilter() {}

  /** All live allocations. */
  public static AllocationFilter live() {
    return new AllocationFilter();
  }

  /** Those that have ended at this time or later, newest first. */
  public static AllocationFilter endedSince(Instant time) {
    AllocationFilter f = new AllocationFilter();
    f.endedSince = time;
    return f;
  }

  private AllocationFilter copy() {
    AllocationFilter f = new AllocationFilter();
    f.labels.putAll(labels);
    f.states.addAll(states);
    f.hostId = hostId;
    f.ended = ended;
    f.endedSince = endedSince;
    f.pageSize = pageSize;
    f.allowStale = allowStale;
    return f;
  }

  /** Those with this label; "*" is any value that is there. */
  public AllocationFilter label(String key, String value) {
    AllocationFilter f = copy();
    f.labels.put(key, value);
    return f;
  }

  /** Those in one of the states that are named. */
  public AllocationFilter state(AllocationState state) {
    AllocationFilter f = copy();
    f.states.add(state);
    return f;
  }

  /** Those on this host. */
  public AllocationFilter host(String id) {
    AllocationFilter f = copy();
    f.hostId = id;
    return f;
  }

  /** Ended ones, too. */
  public AllocationFilter withEnded() {
    AllocationFilter f = copy();
    f.ended = true;
    return f;
  }

  /** How many on a page: 1 to 1000. */
  public AllocationFilter pageSize(int n) {
    AllocationFilter f = copy();
    f.pageSize = n;
    return f;
  }

  /** A standby may answer with what it last saw. */
  public AllocationFilter allowStale() {
    AllocationFilter f = copy();
    f.allowStale = true;
    return f;
  }

  ObjectNode toJson(String pageToken) {
    ObjectNode o = Json.object().put("pageSize", pageSize);
    Json.putText(o, "pageToken", pageToken);
    Json.putLabels(o, "labels", labels);
    if (!states.isEmpty()) {
      ArrayNode a = o.putArray("states");
      states.forEach(s -> a.add(s.wireName()));
    }
    Json.putText(o, "hostId", hostId);
    if (ended) {
      o.put("ended", true);
    }
    if (endedSince != null) {
      o.put("endedSince", endedSince.toString());
    }
    if (allowStale) {
      o.put("allowStale", true);
    }
    return o;
  }
}
