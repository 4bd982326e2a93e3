package io.github.bursar.linkis.clusters;

import io.github.bursar.client.BursarClient;
import io.github.bursar.client.BursarException;
import io.github.bursar.client.ProviderInfo;
import io.github.bursar.client.QueueInfo;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.linkis.manager.am.conf.AMConfiguration;
import org.apache.linkis.manager.common.constant.AMConstant;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.exception.RMWarnException;
import org.apache.linkis.manager.common.protocol.engine.EngineCreateRequest;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.rm.exception.RMErrorCode;

/**
 * The rule of one request, from its properties. A task with acrossClusterTask=true that would go to
 * its origin cluster first (bdap) is refused if its queue there is too full; one that would go to the
 * target cluster first (bdp), if that cluster or its queue there is too full, or the queue has too
 * little left. The caller reads the refusal's code and words, and tries the other cluster.
 *
 * <p>A request is judged by the queue that its resource names; an engine of another type than Spark
 * that linkis.support.cluster.rule.ec.types lists, by the queue that its property names. It is not
 * changed after it was made: any thread may judge it.
 */
public final class AcrossClusterRule {
  private static final String SPARK = "spark";
  private static final String DEFAULT_QUEUE = "default";
  private static final String ROOT = "root";
  private static final String WHAT = "the rule for tasks across clusters";
  private static final int MOST_SHOWN = 200;

  private final Map<String, String> properties;
  private final Set<String> queues;
  private final String cluster;
  private final boolean target;

  private AcrossClusterRule(Map<String, String> properties, Set<String> queues, String cluster, boolean target) {
    this.properties = properties;
    this.queues = queues;
    this.cluster = cluster;
    this.target = target;
  }

  /**
   * The rule of a request; empty: it has none.
   *
   * @throws IllegalArgumentException if a property says neither yes nor no
   */
  public static Optional<AcrossClusterRule> of(List<Label<?>> labels, NodeResource resource, EngineCreateRequest request) {
    return of(labels, resource, request, AMConfiguration.SUPPORT_CLUSTER_RULE_EC_TYPES);
  }

  static Optional<AcrossClusterRule> of(
      List<Label<?>> labels, NodeResource resource, EngineCreateRequest request, String otherTypes) {
    if (request == null || request.getProperties() == null || !across(request.getProperties())) {
      return Optional.empty();
    }
    Map<String, String> said = Collections.unmodifiableMap(withoutNulls(request.getProperties()));
    String priority = said.getOrDefault(AMConfiguration.PRIORITY_CLUSTER, "");
    boolean target = priority.equals(AMConfiguration.PRIORITY_CLUSTER_TARGET);
    Set<String> queues = queues(labels, resource, said, otherTypes);
    if (queues.isEmpty() || !target && !priority.equals(AMConfiguration.PRIORITY_CLUSTER_ORIGIN) || !complete(said, target)) {
      return Optional.empty();
    }
    return Optional.of(new AcrossClusterRule(said, queues, LabelMapper.yarnCluster(labels), target));
  }

  private static boolean across(Map<String, String> properties) {
    String text = properties.get(AMConfiguration.ACROSS_CLUSTER_TASK);
    String word = text == null ? "" : text.trim().toLowerCase(Locale.ROOT);
    if (!word.isEmpty() && !word.equals("true") && !word.equals("false")) {
      throw new IllegalArgumentException(
          "property " + AMConfiguration.ACROSS_CLUSTER_TASK + " is \"" + shown(text) + "\": want true or false");
    }
    return word.equals("true");
  }

  private static Map<String, String> withoutNulls(Map<String, String> properties) {
    Map<String, String> known = new TreeMap<>();
    properties.forEach((name, value) -> {
      if (name != null && value != null) {
        known.put(name, value);
      }
    });
    return known;
  }

  private static Set<String> queues(
      List<Label<?>> labels, NodeResource resource, Map<String, String> properties, String otherTypes) {
    Set<String> queues = new LinkedHashSet<>();
    if (resource.getResourceType() == ResourceType.DriverAndYarn && resource.getMinResource() instanceof DriverAndYarnResource) {
      queues.add(((DriverAndYarnResource) resource.getMinResource()).getYarnResource().getQueueName());
    }
    for (Label<?> label : labels) {
      String type = label instanceof EngineTypeLabel ? ((EngineTypeLabel) label).getEngineType() : null;
      // As in Linkis, whose list is a text.
      if (type != null && !type.trim().isEmpty() && !type.equals(SPARK) && otherTypes != null && otherTypes.contains(type)) {
        queues.add(properties.getOrDefault(AMConfiguration.YARN_QUEUE_NAME_CONFIG_KEY, DEFAULT_QUEUE));
      }
    }
    return queues;
  }

  /** Linkis judges nothing if a threshold is missing. */
  private static boolean complete(Map<String, String> properties, boolean target) {
    String[] names = target
        ? new String[] {
          AMConfiguration.TARGET_CPU_THRESHOLD, AMConfiguration.TARGET_MEMORY_THRESHOLD,
          AMConfiguration.TARGET_CPU_PERCENTAGE_THRESHOLD, AMConfiguration.TARGET_MEMORY_PERCENTAGE_THRESHOLD
        }
        : new String[] {AMConfiguration.ORIGIN_CPU_PERCENTAGE_THRESHOLD, AMConfiguration.ORIGIN_MEMORY_PERCENTAGE_THRESHOLD};
    for (String name : names) {
      if (properties.getOrDefault(name, "").trim().isEmpty()) {
        return false;
      }
    }
    return true;
  }

  /** Whether the target cluster comes first: Linkis looks at what the queue has left before. */
  public boolean ofTarget() {
    return target;
  }

  /**
   * The refusal with Linkis's code, as things are now; empty: the rule lets the task pass.
   *
   * @throws UnknownQueueException if Bursar does not know the queue, or not now
   * @throws BursarException if Bursar does not answer
   */
  public Optional<RMWarnException> broken(BursarClient client) {
    for (String name : queues) {
      QueueFigures queue = figures(client, name);
      try {
        String why = target ? tooLittle(queue, figures(client, ROOT)) : tooFull(queue);
        if (why != null) {
          return Optional.of(new RMWarnException(RMErrorCode.ACROSS_CLUSTER_RULE_FAILED.getErrorCode(), why));
        }
      } catch (NumberFormatException e) {
        return Optional.of(new RMWarnException(RMErrorCode.ACROSS_CLUSTER_RULE_FAILED.getErrorCode(), e.getMessage()));
      }
    }
    return Optional.empty();
  }

  private QueueFigures figures(BursarClient client, String name) {
    QueueInfo queue = find(client, name);
    // A queue that is stopped or held back has figures. A cluster that cannot be read has old ones.
    if (!queue.unavailable().isEmpty() && client.providers().stream().noneMatch(p -> reads(p, queue))) {
      throw new UnknownQueueException(WHAT + " cannot be judged now: " + queue, true);
    }
    return new QueueFigures(queue);
  }

  private QueueInfo find(BursarClient client, String name) {
    String which = WHAT + " needs queue \"" + shown(name) + "\" of YARN" + (cluster.isEmpty() ? "" : " cluster " + shown(cluster));
    try {
      return client.queue(ResourceMapper.YARN, cluster, name)
          .orElseThrow(() -> new UnknownQueueException(which + ", and Bursar knows no such queue", false));
    } catch (BursarException e) {
      if (e.code() != BursarException.Code.INVALID_ARGUMENT) {
        throw e;
      }
      throw new UnknownQueueException(which + ", and Bursar does not find it: " + e.getMessage(), false);
    }
  }

  private static boolean reads(ProviderInfo provider, QueueInfo queue) {
    return provider.known() && provider.kind().equals(queue.kind()) && provider.cluster().equals(queue.cluster());
  }

  /** Why the queue of the origin cluster is too full; null: it is not. The first words are Linkis's. */
  private String tooFull(QueueFigures queue) {
    double cpu = fraction(AMConfiguration.ORIGIN_CPU_PERCENTAGE_THRESHOLD);
    double memory = fraction(AMConfiguration.ORIGIN_MEMORY_PERCENTAGE_THRESHOLD);
    if (queue.cpuShare() < cpu && queue.memoryShare() < memory) {
      return null;
    }
    return AMConstant.ORIGIN_CLUSTER_RETRY_DES + " Bursar: queue " + queue.name + ": " + shares("used", queue, cpu, memory);
  }

  /** Why the target cluster, or the queue there, has too little; null: it has enough. */
  private String tooLittle(QueueFigures queue, QueueFigures root) {
    double rootCpu = AMConfiguration.ACROSS_CLUSTER_TOTAL_CPU_PERCENTAGE_THRESHOLD;
    double rootMemory = AMConfiguration.ACROSS_CLUSTER_TOTAL_MEMORY_PERCENTAGE_THRESHOLD;
    int cores = whole(AMConfiguration.TARGET_CPU_THRESHOLD);
    int gibibytes = whole(AMConfiguration.TARGET_MEMORY_THRESHOLD);
    double cpu = fraction(AMConfiguration.TARGET_CPU_PERCENTAGE_THRESHOLD);
    double memory = fraction(AMConfiguration.TARGET_MEMORY_PERCENTAGE_THRESHOLD);
    if (root.cpuShare() >= rootCpu || root.memoryShare() >= rootMemory) {
      return shares("clusterUsed", root, rootCpu, rootMemory) + " Bursar: queue " + root.name;
    }
    if (queue.coresLeft() < cores || queue.gibibytesLeft() < gibibytes) {
      return "leftResource.queueCores: " + queue.coresLeft() + ", CPUThreshold: " + cores
          + ", leftQueueMemory: " + queue.gibibytesLeft() + ", MemoryThreshold: " + gibibytes + " Bursar: queue " + queue.name;
    }
    if (queue.cpuShare() >= cpu || queue.memoryShare() >= memory) {
      return shares("used", queue, cpu, memory) + " Bursar: queue " + queue.name;
    }
    return null;
  }

  private static String shares(String what, QueueFigures queue, double cpu, double memory) {
    return what + "CPUPercentage: " + queue.cpuShare() + ", CPUPercentageThreshold: " + cpu
        + ", " + what + "MemoryPercentage: " + queue.memoryShare() + ", MemoryPercentageThreshold: " + memory;
  }

  private double fraction(String name) {
    try {
      double fraction = Double.parseDouble(properties.get(name).trim());
      if (!Double.isNaN(fraction)) {
        return fraction;
      }
    } catch (NumberFormatException e) {
      throw wrong(name, "a fraction such as 0.8");
    }
    throw wrong(name, "a fraction such as 0.8");
  }

  private int whole(String name) {
    try {
      return Integer.parseInt(properties.get(name).trim());
    } catch (NumberFormatException e) {
      throw wrong(name, "a whole number");
    }
  }

  private NumberFormatException wrong(String name, String want) {
    return new NumberFormatException("property " + name + " is \"" + shown(properties.get(name)) + "\": want " + want);
  }

  /** What a user wrote, fit for one line of a log. */
  private static String shown(String text) {
    String line = text.replaceAll("\\p{C}", "?");
    return line.length() <= MOST_SHOWN ? line : line.substring(0, MOST_SHOWN) + "…";
  }
}
