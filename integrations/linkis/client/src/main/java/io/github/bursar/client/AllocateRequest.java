package io.github.bursar.client;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** What is asked for. */
public final class AllocateRequest {
  /** One that does not wait at all is refused in other words than one whose wait is over. */
  private static final Duration SHORTEST_WAIT = Duration.ofMillis(1);

  private final Builder b;

  private AllocateRequest(Builder b) {
    this.b = b;
  }

  /** How long it waits if it does not fit now. */
  public Duration waitTime() {
    return b.wait == null ? Duration.ZERO : b.wait;
  }

  /** The id that makes the call safe to repeat; null: the client makes one. */
  public String requestId() {
    return b.requestId;
  }

  /** What it asks for. */
  public Resource resource() {
    return b.resource;
  }

  /** The labels. */
  public Map<String, String> labels() {
    return new LinkedHashMap<>(b.labels);
  }

  /** For an attempt that is made so long after the first one: the wait counts from that. */
  ObjectNode toJson(String requestId, Duration after) {
    ObjectNode o = toJson(requestId);
    if (!b.async && waitTime().compareTo(SHORTEST_WAIT) > 0) {
      Duration left = waitTime().minus(after);
      Json.putDuration(o, "wait", left.compareTo(SHORTEST_WAIT) > 0 ? left : SHORTEST_WAIT);
    }
    return o;
  }

  ObjectNode toJson(String requestId) {
    ObjectNode o = Json.object();
    Json.putText(o, "requestId", requestId);
    Json.putLabels(o, "labels", b.labels);
    o.set("resource", b.resource.toJson());
    Json.putDuration(o, "wait", b.wait);
    if (b.async) {
      o.put("async", true);
    }
    Json.putDuration(o, "reservationTtl", b.reservationTtl);
    if (b.priority != 0) {
      o.put("priority", b.priority);
    }
    ObjectNode host = Json.object();
    Json.putText(host, "id", b.hostId);
    Json.putLabels(host, "requiredLabels", b.requiredHostLabels);
    Json.putLabels(host, "preferredLabels", b.preferredHostLabels);
    if (!b.avoid.isEmpty()) {
      ArrayNode a = host.putArray("avoid");
      b.avoid.forEach(a::add);
    }
    if (host.size() > 0) {
      o.set("host", host);
    }
    if (b.confirmsProcess) {
      o.put("confirmsProcess", true);
    }
    return o;
  }

  /** A new builder. */
  public static Builder builder() {
    return new Builder();
  }

  /** Builds a request. */
  public static final class Builder {
    private String requestId;
    private Map<String, String> labels = new LinkedHashMap<>();
    private Resource resource;
    private Duration wait;
    private boolean async;
    private Duration reservationTtl;
    private int priority;
    private String hostId;
    private Map<String, String> requiredHostLabels = new LinkedHashMap<>();
    private Map<String, String> preferredHostLabels = new LinkedHashMap<>();
    private List<String> avoid = new ArrayList<>();
    private boolean confirmsProcess;

    private Builder() {}

    /**
     * Same caller and id, same allocation. Not set: the client makes one for all of its attempts.
     */
    public Builder requestId(String requestId) {
      this.requestId = requestId;
      return this;
    }

    /** Adds a label. */
    public Builder label(String key, String value) {
      labels.put(Objects.requireNonNull(key), Objects.requireNonNull(value, key));
      return this;
    }

    /** Adds labels. */
    public Builder labels(Map<String, String> labels) {
      labels.forEach(this::label);
      return this;
    }

    /** What is asked for; required. */
    public Builder resource(Resource resource) {
      this.resource = resource;
      return this;
    }

    /** How long to wait if it does not fit now; not set: not at all. */
    public Builder waitTime(Duration wait) {
      this.wait = wait;
      return this;
    }

    /** Answer at once with the waiting allocation. */
    public Builder async(boolean async) {
      this.async = async;
      return this;
    }

    /** How long the reservation holds before it is confirmed; not set: 2 minutes. */
    public Builder reservationTtl(Duration ttl) {
      reservationTtl = ttl;
      return this;
    }

    /** Higher goes first; only some callers may set another value than 0. */
    public Builder priority(int priority) {
      this.priority = priority;
      return this;
    }

    /** Exactly this host. */
    public Builder host(String id) {
      hostId = id;
      return this;
    }

    /** A label that the host must have. */
    public Builder requiredHostLabel(String key, String value) {
      requiredHostLabels.put(key, value);
      return this;
    }

    /** A label that is better to have. */
    public Builder preferredHostLabel(String key, String value) {
      preferredHostLabels.put(key, value);
      return this;
    }

    /** A host not to use. */
    public Builder avoid(String hostId) {
      avoid.add(hostId);
      return this;
    }

    /** To an agent: the caller will confirm with a pid. */
    public Builder confirmsProcess(boolean confirms) {
      confirmsProcess = confirms;
      return this;
    }

    /** The request. */
    public AllocateRequest build() {
      Objects.requireNonNull(resource, "resource");
      Builder copy = new Builder();
      copy.requestId = requestId;
      copy.labels = new LinkedHashMap<>(labels);
      copy.resource = resource;
      copy.wait = wait;
      copy.async = async;
      copy.reservationTtl = reservationTtl;
      copy.priority = priority;
      copy.hostId = hostId;
      copy.requiredHostLabels = new LinkedHashMap<>(requiredHostLabels);
      copy.preferredHostLabels = new LinkedHashMap<>(preferredHostLabels);
      copy.avoid = new ArrayList<>(avoid);
      copy.confirmsProcess = confirmsProcess;
      return new AllocateRequest(copy);
    }
  }
}
