package io.github.bursar.linkis.mapping;

import io.github.bursar.client.AccountName;
import io.github.bursar.client.Refusal;
import io.github.bursar.client.Shortfall;
import java.util.List;
import org.apache.linkis.manager.common.constant.RMConstant;
import org.apache.linkis.manager.common.exception.RMWarnException;
import org.apache.linkis.manager.rm.exception.RMErrorCode;
import org.apache.linkis.manager.rm.utils.RMUtils;

/**
 * Refusals in Linkis's own codes and wording, so that what reads them goes on reading them, with
 * Bursar's reason and numbers after that.
 */
public final class RefusalMapper {
  /** What is said of a refusal that names nothing: Bursar's answer has no more than "waited". */
  static final String NOTHING_SHORT =
      "nothing is named that is short: there may be room now, others may be before it, or Bursar did"
          + " not look again (after a change of leader, or as many waits ended at once)";

  private final int millisPerCore;

  /** With what one of Linkis's cores is, in thousandths of a core. */
  public RefusalMapper(int millisPerCore) {
    this.millisPerCore = millisPerCore;
  }

  /** What Bursar answered to a request. */
  public RMWarnException refusal(String ecm, Refusal refusal) {
    String message = refusal.message();
    if (refusal.shortfalls().isEmpty() && refusal.hostFilters().isEmpty()) {
      message = message.trim() + " " + NOTHING_SHORT;
    }
    return refusal(ecm, refusal.shortfalls(), refusal.never(), message);
  }

  /**
   * The refusal as the message of Linkis's exception, which begins with its code.
   *
   * @param ecm the ECM's host:port
   * @param shortfalls what is short; the first that Linkis would name gives code and wording
   * @param message Bursar's own words
   */
  public RMWarnException refusal(String ecm, List<Shortfall> shortfalls, boolean never, String message) {
    Shortfall first = shortfalls.isEmpty() ? null : shortfalls.get(0);
    for (Shortfall s : shortfalls) {
      if (rank(s) < rank(first)) {
        first = s;
      }
    }
    String end = " Bursar: " + message + (never ? " (it can never fit: ask for less, or raise the limit)" : "");
    if (first == null) {
      return new RMWarnException(
          RMErrorCode.ECM_RESOURCE_INSUFFICIENT.getErrorCode(), RMErrorCode.ECM_RESOURCE_INSUFFICIENT.getErrorDesc() + end);
    }
    RMErrorCode code = code(first);
    String text = code.getErrorDesc() + numbers(first);
    if (first.account().kind() == AccountName.Kind.HOST) {
      text += "ECM Instance:" + ecm;
    }
    return new RMWarnException(code.getErrorCode(), text + end);
  }

  /**
   * Linkis's order: the ECM before the user before the cluster, cpu before memory before instances.
   */
  private static int rank(Shortfall s) {
    int account;
    switch (s.account().kind()) {
      case HOST:
        account = 0;
        break;
      case QUOTA:
        account = s.account().external().isEmpty() ? 1 : 2;
        break;
      default:
        account = 3;
    }
    int dimension;
    switch (s.dimension()) {
      case "cpu":
        dimension = 0;
        break;
      case "memory":
        dimension = 1;
        break;
      case "instances":
        dimension = 2;
        break;
      default:
        dimension = 3;
    }
    return 4 * account + dimension;
  }

  private static RMErrorCode code(Shortfall s) {
    boolean queuePart = !s.account().external().isEmpty();
    switch (s.account().kind()) {
      case HOST:
        return one(
            s.dimension(), RMErrorCode.ECM_CPU_INSUFFICIENT, RMErrorCode.ECM_MEMORY_INSUFFICIENT,
            RMErrorCode.ECM_INSTANCES_INSUFFICIENT, RMErrorCode.ECM_RESOURCE_INSUFFICIENT);
      case QUEUE:
        return one(
            s.dimension(), RMErrorCode.CLUSTER_QUEUE_CPU_INSUFFICIENT, RMErrorCode.CLUSTER_QUEUE_MEMORY_INSUFFICIENT,
            RMErrorCode.CLUSTER_QUEUE_INSTANCES_INSUFFICIENT, RMErrorCode.CLUSTER_QUEUE_INSTANCES_INSUFFICIENT);
      default:
        return queuePart
            ? one(
                s.dimension(), RMErrorCode.QUEUE_CPU_INSUFFICIENT, RMErrorCode.QUEUE_MEMORY_INSUFFICIENT,
                RMErrorCode.QUEUE_INSTANCES_INSUFFICIENT, RMErrorCode.QUEUE_INSTANCES_INSUFFICIENT)
            : one(
                s.dimension(), RMErrorCode.DRIVER_CPU_INSUFFICIENT, RMErrorCode.DRIVER_MEMORY_INSUFFICIENT,
                RMErrorCode.INSTANCES_INSUFFICIENT, RMErrorCode.INSTANCES_INSUFFICIENT);
    }
  }

  private static RMErrorCode one(String dimension, RMErrorCode cpu, RMErrorCode memory, RMErrorCode instances, RMErrorCode other) {
    switch (dimension) {
      case "cpu":
        return cpu;
      case "memory":
        return memory;
      case "instances":
        return instances;
      default:
        return other;
    }
  }

  private String numbers(Shortfall s) {
    boolean queue = s.account().kind() == AccountName.Kind.QUEUE || !s.account().external().isEmpty();
    String path = s.account().kind() == AccountName.Kind.QUEUE ? s.account().labels().getOrDefault("path", "") : "";
    switch (s.dimension()) {
      case "cpu":
        long unit = queue ? 1000 : millisPerCore;
        return RMUtils.getResourceInfoMsg(
            RMConstant.CPU, RMConstant.CPU_UNIT, (s.requested() + unit - 1) / unit, Math.max(0, s.available()) / unit, s.limit() / unit, path);
      case "memory":
        return RMUtils.getResourceInfoMsg(
            RMConstant.MEMORY, RMConstant.MEMORY_UNIT_BYTE, s.requested(), s.available(), s.limit(), path);
      default:
        return RMUtils.getResourceInfoMsg(
            RMConstant.APP_INSTANCE, RMConstant.INSTANCE_UNIT, s.requested(), s.available(), s.limit(), path);
    }
  }
}
