package io.github.bursar.linkis.allocation;

/** What shadow mode has counted since the manager started. */
public interface ShadowReportMXBean {
  /** Requests that both grant. */
  long getBothGrant();

  /** Requests that both refuse. */
  long getBothRefuse();

  /** Requests that stock Linkis granted and Bursar would not. */
  long getStockAloneGrants();

  /** Requests that stock Linkis refused and Bursar would grant. */
  long getBursarAloneGrants();

  /** Requests of which Bursar's answer is not known. */
  long getNotCompared();
}
