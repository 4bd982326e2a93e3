package io.github.bursar.linkis;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.allocation.BursarResourceManager;
import io.github.bursar.linkis.allocation.ShadowResourceManager;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/**
 * Brings the beans into LinkisManager: Spring Boot finds it by META-INF/spring.factories, so that
 * no
 * package of Linkis has to be scanned. The resource managers are {@code @Primary} and extend the
 * stock one, which Linkis also injects by its class.
 */
@Configuration(proxyBeanMethods = false)
@ConditionalOnClass(name = "org.apache.linkis.manager.rm.service.impl.DefaultResourceManager")
@Conditional(OnMode.NotOff.class)
public class BursarAutoConfiguration {
  /** The settings; what is wrong refuses the start. */
  @Bean
  public Settings bursarSettings() {
    return Settings.fromLinkis();
  }

  /** The client that all share. */
  @Bean(destroyMethod = "close")
  public BursarClient bursarClient(Settings settings) {
    return Bursar.client(settings);
  }

  /** Resources of both sides. */
  @Bean
  public ResourceMapper bursarResourceMapper(Settings settings) {
    return new ResourceMapper(settings.cpuMillisPerCore());
  }

  /** Labels and hosts of both sides. */
  @Bean
  public LabelMapper bursarLabelMapper(Settings settings) {
    return new LabelMapper(settings);
  }

  /** Bursar decides. */
  @Configuration(proxyBeanMethods = false)
  @Conditional(OnMode.Enforce.class)
  public static class Enforce {
    /** Instead of the stock one. */
    @Bean
    @Primary
    public BursarResourceManager bursarResourceManager(
        BursarClient client, Settings settings, ResourceMapper resources, LabelMapper labels) {
      return new BursarResourceManager(client, settings, resources, labels);
    }
  }

  /** Stock decides, Bursar is asked. */
  @Configuration(proxyBeanMethods = false)
  @Conditional(OnMode.Shadow.class)
  public static class Shadow {
    /** The stock one, and what Bursar would have said. */
    @Bean
    @Primary
    public ShadowResourceManager bursarResourceManager(
        BursarClient client, Settings settings, ResourceMapper resources, LabelMapper labels) {
      return new ShadowResourceManager(client, settings, resources, labels);
    }
  }
}
