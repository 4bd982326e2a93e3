package io.github.bursar.linkis.mapping;

import io.github.bursar.linkis.Settings;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.linkis.manager.common.conf.RMConfiguration;
import org.apache.linkis.manager.label.entity.Label;
import org.apache.linkis.manager.label.entity.TenantLabel;
import org.apache.linkis.manager.label.entity.cluster.ClusterLabel;
import org.apache.linkis.manager.label.entity.em.EMInstanceLabel;
import org.apache.linkis.manager.label.entity.engine.EngineTypeLabel;
import org.apache.linkis.manager.label.entity.engine.UserCreatorLabel;

/** Labels of an engine, and the host of an ECM. */
public final class LabelMapper {
  /** A label that all requests of Linkis have, and no others. */
  public static final String SYSTEM_KEY = "system";
  /** Its value. */
  public static final String SYSTEM = "linkis";

  private final Map<String, String> hostMap;
  private final Map<String, String> constants;
  private final List<String> fromLinkis;

  /** With the settings host.map and labels.extra. */
  public LabelMapper(Settings settings) {
    hostMap = settings.hostMap();
    constants = settings.extraConstants();
    fromLinkis = settings.extraFromLinkis();
  }

  /**
   * The labels system, user, creator, engineType, engineVersion, tenant if there is one, and those
   * of labels.extra. A label that Linkis decides cannot be replaced by labels.extra.
   *
   * @throws IllegalArgumentException if the user, the creator or the engine type is missing
   */
  public Map<String, String> labels(List<Label<?>> labels) {
    Map<String, String> m = new LinkedHashMap<>(constants);
    for (Label<?> label : labels) {
      if (label != null && fromLinkis.contains(label.getLabelKey()) && label.getStringValue() != null) {
        m.put(label.getLabelKey(), label.getStringValue());
      }
    }
    m.put(SYSTEM_KEY, SYSTEM);
    for (Label<?> label : labels) {
      if (label instanceof UserCreatorLabel) {
        put(m, "user", ((UserCreatorLabel) label).getUser());
        put(m, "creator", ((UserCreatorLabel) label).getCreator());
      } else if (label instanceof EngineTypeLabel) {
        put(m, "engineType", ((EngineTypeLabel) label).getEngineType());
        put(m, "engineVersion", ((EngineTypeLabel) label).getVersion());
      } else if (label instanceof TenantLabel) {
        put(m, "tenant", ((TenantLabel) label).getTenant());
      }
    }
    for (String key : new String[] {"user", "creator", "engineType"}) {
      if (m.getOrDefault(key, "").isEmpty()) {
        throw new IllegalArgumentException(
            "the engine has no " + key + ": want the labels userCreator (such as alice-IDE) and engineType (such as spark-3.3)");
      }
    }
    return m;
  }

  private static void put(Map<String, String> m, String key, String value) {
    if (value != null && !value.isEmpty()) {
      m.put(key, value);
    }
  }

  /** The cluster of YARN that the engine's label names; empty: the default one. */
  public static String yarnCluster(List<Label<?>> labels) {
    for (Label<?> label : labels) {
      if (label instanceof ClusterLabel) {
        ClusterLabel c = (ClusterLabel) label;
        String name = c.getClusterName();
        boolean yarn = c.getClusterType() == null || "yarn".equalsIgnoreCase(c.getClusterType());
        return name == null || !yarn || name.equals(RMConfiguration.DEFAULT_YARN_CLUSTER_NAME.getValue()) ? "" : name;
      }
    }
    return "";
  }

  /**
   * Bursar's host of an ECM.
   *
   * @throws IllegalArgumentException if the label names no ECM
   */
  public String host(EMInstanceLabel ecm) {
    String instance = ecm == null ? null : ecm.getInstance();
    if (instance == null || instance.isEmpty()) {
      throw new IllegalArgumentException("no ECM was chosen: want a label emInstance with HOST:PORT");
    }
    return host(instance);
  }

  /** Bursar's host of the ECM at host:port. */
  public String host(String instance) {
    String mapped = hostMap.get(instance);
    if (mapped != null) {
      return mapped;
    }
    int colon = instance.lastIndexOf(':');
    String host = colon > instance.lastIndexOf(']') && colon > 0 ? instance.substring(0, colon) : instance;
    if (host.startsWith("[") && host.endsWith("]")) {
      host = host.substring(1, host.length() - 1);
    }
    return hostMap.getOrDefault(host, host);
  }
}
