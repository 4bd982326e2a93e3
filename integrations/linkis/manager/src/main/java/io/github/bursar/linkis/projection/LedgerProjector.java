package io.github.bursar.linkis.projection;

import io.github.bursar.client.Account;
import io.github.bursar.client.Allocation;
import io.github.bursar.client.AllocationState;
import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.HostInfo;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.apache.linkis.common.ServiceInstance;
import org.apache.linkis.manager.common.entity.node.Node;
import org.apache.linkis.manager.common.entity.persistence.PersistenceLabel;
import org.apache.linkis.manager.common.entity.resource.CommonNodeResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.label.LabelManagerUtils;
import org.apache.linkis.manager.label.builder.factory.LabelBuilderFactoryContext;
import org.apache.linkis.manager.label.constant.LabelKeyConstant;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the rows of ECMs and of users with their engines as Bursar has them, so that what reads
 * Linkis's tables sees the truth.
 *
 * <p>The row of an ECM is its host: max is what the host may give away, used and
 * locked what engines and reservations are entitled to, left what a request could get now,
 * which is nothing while the host takes no grants or has no agent. Min,
 * what the host never gives away, is as the ECM has registered it; only in a row that is new it is
 * Bursar's. What the ECM has registered as max is kept in the row too, as {@link Registered} says.
 * The row of a user, a creator and an engine has what their engines are entitled to; its max is the
 * least limit of the quotas that count them, and its left the least that one of these has left.
 *
 * <p>It writes what differs and nothing else, so any number of managers may do it. Not safe for
 * concurrent use.
 */
final class LedgerProjector {
  /** Most characters of a label's value in Linkis's tables. */
  private static final int MAX_LABEL = 128;
  private static final Logger log = LoggerFactory.getLogger(LedgerProjector.class);

  private final LinkisRows rows;
  private final Function<ServiceInstance, String> hostOf;
  private final long millisPerCore;
  private final EachOne each = new EachOne("rows of ECMs and users stay as they are");
  private int written;
  private boolean saidTooLong;

  /**
   * @param hostOf Bursar's name of an ECM's host
   * @param millisPerCore what one core of Linkis is, in thousandths of a core
   */
  LedgerProjector(LinkisRows rows, Function<ServiceInstance, String> hostOf, long millisPerCore) {
    this.rows = rows;
    this.hostOf = hostOf;
    this.millisPerCore = millisPerCore;
  }

  /** Writes the rows that differ; returns how many these were. */
  int project(List<Node> ecms, Map<String, HostInfo> hosts, Collection<Allocation> live, QuotaIndex quotas) {
    written = 0;
    each.begin();
    projectHosts(ecms, hosts);
    projectUsers(hosts.values(), live, quotas);
    each.end();
    return written;
  }

  private void projectHosts(List<Node> ecms, Map<String, HostInfo> hosts) {
    if (ecms.isEmpty()) {
      return;
    }
    Map<String, LinkisRows.Row> present = rows.withKey(LabelKeyConstant.EM_INSTANCE_KEY);
    for (Node ecm : ecms) {
      each.run("ECM " + ecm.getServiceInstance().getInstance(), () -> projectHost(ecm, hosts, present));
    }
  }

  private void projectHost(Node ecm, Map<String, HostInfo> hosts, Map<String, LinkisRows.Row> present) {
    EMInstanceLabel label = LabelBuilderFactoryContext.getLabelBuilderFactory().createLabel(EMInstanceLabel.class);
    label.setServiceName(ecm.getServiceInstance().getApplicationName());
    label.setInstance(ecm.getServiceInstance().getInstance());
    PersistenceLabel stored = LabelManagerUtils.convertPersistenceLabel(label);
    LinkisRows.Row row = present.get(stored.getStringValue());
    CommonNodeResource want = hostRow(hosts.get(hostOf.apply(ecm.getServiceInstance())), row);
    if (want != null && rows.put(stored, row, want, label.getStringValue())) {
      written++;
    }
  }

  /** What an ECM's row is to say; null: nothing is known, and there is no row. */
  private CommonNodeResource hostRow(HostInfo host, LinkisRows.Row row) {
    LoadInstanceResource registered = row == null ? null : Registered.max(row.parsed());
    LoadInstanceResource nothing = new LoadInstanceResource(0, 0, 0);
    if (host == null) {
      return registered == null ? null : Registered.keep(registered, node(ResourceType.LoadInstance, registered, nothing, nothing, nothing, nothing));
    }
    Account a = host.account();
    Amounts limit = Amounts.of(a.limit());
    Amounts used = Amounts.of(a.used());
    Amounts locked = Amounts.of(a.reserved());
    if (!a.limit().instances().isPresent()) { // the ECM's own number of engines is only shown
      // It may be read from the row that is written here: it must come out as it went in.
      boolean known = registered != null && registered.getInstances() != Integer.MAX_VALUE;
      limit.instances = known ? registered.getInstances() : Long.MAX_VALUE;
    }
    Amounts left = limit.without(used, locked).without(Amounts.of(a.protectedPart()), new Amounts());
    left.bound(a.available());
    if (!host.unavailableReason().isEmpty()) {
      left = new Amounts();
    }
    LoadInstanceResource max = limit.load(millisPerCore, false);
    return Registered.keep(
        registered == null ? max : registered,
        node(
            ResourceType.LoadInstance,
            max,
            Amounts.of(a.protectedPart()).load(millisPerCore, true),
            used.load(millisPerCore, true),
            locked.load(millisPerCore, true),
            left.load(millisPerCore, false)));
  }

  private static CommonNodeResource node(
      ResourceType type, Resource max, Resource min, Resource used, Resource locked, Resource left) {
    CommonNodeResource n = new CommonNodeResource();
    n.setResourceType(type);
    n.setMaxResource(max);
    n.setMinResource(min);
    n.setUsedResource(used);
    n.setLockedResource(locked);
    n.setLeftResource(left);
    return n;
  }

  /** What the engines of one combination have. */
  private static final class Use {
    final Amounts used = new Amounts();
    final Amounts locked = new Amounts();
    /** The labels that all of them have. */
    final Map<String, String> labels;

    boolean yarn;
    String queue = "default";

    Use(Map<String, String> labels) {
      this.labels = new HashMap<>(labels);
    }

    void add(Allocation a) {
      labels.entrySet().removeIf(l -> !l.getValue().equals(a.labels().get(l.getKey())));
      (a.state() == AllocationState.ACTIVE ? used : locked).add(a.entitled());
      for (ExternalResource part : a.entitled().external()) {
        if (part.kind().equals(Amounts.YARN)) {
          queue = yarn && queue.compareTo(part.path()) < 0 ? queue : part.path();
          yarn = true;
        }
      }
    }
  }

  private static Map<Combination, Use> uses(Collection<Allocation> live) {
    Map<Combination, Use> uses = new HashMap<>();
    for (Allocation a : live) {
      if (a.state() == AllocationState.RESERVED || a.state() == AllocationState.ACTIVE) {
        Combination.of(a).ifPresent(c -> uses.computeIfAbsent(c, k -> new Use(a.labels())).add(a));
      }
    }
    return uses;
  }

  private void projectUsers(Collection<HostInfo> hosts, Collection<Allocation> live, QuotaIndex quotas) {
    Map<Combination, Use> uses = uses(live);
    Amounts fleet = new Amounts();
    hosts.forEach(h -> fleet.add(h.account().limit()));
    fleet.instances = fleet.queueMemory = fleet.queueCpu = fleet.queueInstances = Long.MAX_VALUE;

    Map<Combination, LinkisRows.Row> present = new HashMap<>();
    for (Map.Entry<String, LinkisRows.Row> row : rows.withKey(Combination.LABEL_KEY).entrySet()) {
      Optional<Combination> who = Combination.parse(row.getKey());
      who.ifPresent(c -> present.put(c, row.getValue()));
      who.ifPresent(c -> uses.computeIfAbsent(c, k -> new Use(new HashMap<>())));
    }
    uses.forEach((who, use) -> each.run("a user's row", () -> {
      LinkisRows.Row row = present.get(who);
      PersistenceLabel label = row != null ? row.label : LabelManagerUtils.convertPersistenceLabel(who.label());
      int length = label.getStringValue().codePointCount(0, label.getStringValue().length());
      if (row == null && length > MAX_LABEL) {
        if (!saidTooLong) {
          saidTooLong = true;
          log.warn("users, creators and engines whose label would have more than {} characters get no row: one has {}", MAX_LABEL, length);
        }
        return;
      }
      if (rows.put(label, row, userRow(who, use, quotas, fleet, row), who.toString())) {
        written++;
      }
    }));
  }

  private CommonNodeResource userRow(Combination who, Use use, QuotaIndex quotas, Amounts fleet, LinkisRows.Row row) {
    Amounts max = fleet.without(new Amounts(), new Amounts());
    Amounts least = Amounts.unlimited();
    quotas.bound(key -> who.value(key, use.labels), max, least);
    Amounts left = max.without(use.used, use.locked);
    left.bound(least);

    boolean wasYarn = row != null && ResourceType.DriverAndYarn.name().equals(row.resource.getResourceType());
    if (!use.yarn && !wasYarn) {
      return node(
          ResourceType.LoadInstance,
          max.load(millisPerCore, false),
          new LoadInstanceResource(0, 0, 0),
          use.used.load(millisPerCore, true),
          use.locked.load(millisPerCore, true),
          left.load(millisPerCore, false));
    }
    String queue = use.queue;
    if (!use.yarn && row.parsed().getMaxResource() instanceof DriverAndYarnResource) {
      queue = ((DriverAndYarnResource) row.parsed().getMaxResource()).getYarnResource().getQueueName();
    }
    return node(
        ResourceType.DriverAndYarn,
        max.loadAndYarn(millisPerCore, queue, false),
        new Amounts().loadAndYarn(millisPerCore, queue, true),
        use.used.loadAndYarn(millisPerCore, queue, true),
        use.locked.loadAndYarn(millisPerCore, queue, true),
        left.loadAndYarn(millisPerCore, queue, false));
  }
}
