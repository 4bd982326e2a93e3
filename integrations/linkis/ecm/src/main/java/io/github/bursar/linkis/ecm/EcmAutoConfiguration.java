package io.github.bursar.linkis.ecm;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Supplier;
import org.apache.linkis.common.conf.BDPConfiguration;
import org.apache.linkis.ecm.server.context.ECMContext;
import org.apache.linkis.ecm.server.service.LocalDirsHandleService;
import org.apache.linkis.ecm.server.service.ResourceLocalizationService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.beans.factory.support.BeanDefinitionRegistryPostProcessor;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Puts Bursar's services in the place of Linkis's, if linkis.bursar.mode is enforce. Linkis's are
 * {@code @ConditionalOnMissingBean}, but an auto configuration is read after them: so they are
 * replaced by their names.
 */
@Configuration(proxyBeanMethods = false)
@ConditionalOnClass(name = "org.apache.linkis.ecm.server.LinkisECMApplication")
public class EcmAutoConfiguration {
  private static final Logger log = LoggerFactory.getLogger(EcmAutoConfiguration.class);

  // Of ECMSpringConfiguration.
  static final String LAUNCH = "getLinuxProcessEngineConnLaunchService";
  static final String KILL = "getDefaultEngineConnKillService";
  static final String REGISTER = "getDefaultECMRegisterService";

  @Bean
  static BeanDefinitionRegistryPostProcessor bursarEcmServices() {
    return new Replacement(
        new EcmSettings(merged(BDPConfiguration.properties(), System.getProperties())));
  }

  /** As LinkisManager's side reads them: the command line's (-D) override those of files. */
  static Map<String, String> merged(Properties files, Properties commandLine) {
    Properties all = new Properties();
    all.putAll(files);
    all.putAll(commandLine);
    Map<String, String> strings = new HashMap<>();
    for (String name : all.stringPropertyNames()) {
      strings.put(name, all.getProperty(name));
    }
    return strings;
  }

  /** Replaces bean definitions before any bean is made. */
  static final class Replacement implements BeanDefinitionRegistryPostProcessor {
    private final EcmSettings settings;

    Replacement(EcmSettings settings) {
      this.settings = settings;
    }

    @Override
    public void postProcessBeanDefinitionRegistry(BeanDefinitionRegistry registry) {
      if (settings.mode != EcmSettings.Mode.ENFORCE) {
        log.info("{} is {}: this ECM is Linkis's own", EcmSettings.MODE, settings.mode);
        return;
      }
      ConfigurableListableBeanFactory beans = (ConfigurableListableBeanFactory) registry;
      Ecm ecm = new Ecm(settings);
      replace(registry, KILL, BursarEngineConnKillService.class, () -> new BursarEngineConnKillService(ecm));
      replace(
          registry,
          LAUNCH,
          BursarEngineConnLaunchService.class,
          () -> {
            BursarEngineConnLaunchService service =
                new BursarEngineConnLaunchService(
                    ecm, beans.getBean(BursarEngineConnKillService.class));
            service.setResourceLocalizationService(beans.getBean(ResourceLocalizationService.class));
            service.setLocalDirsHandleService(beans.getBean(LocalDirsHandleService.class));
            return service;
          });
      replace(
          registry,
          REGISTER,
          BursarEcmRegisterService.class,
          () -> {
            BursarEcmRegisterService service = new BursarEcmRegisterService(ecm);
            beans.getBean(ECMContext.class).getECMSyncListenerBus().addListener(service);
            return service;
          });
      log.info(
          "this ECM runs on Bursar: agent {}, engines are started by {}",
          settings.socket,
          settings.launch ? "the agent" : "the ECM");
    }

    private static <T> void replace(
        BeanDefinitionRegistry registry, String name, Class<T> type, Supplier<T> supplier) {
      if (!registry.containsBeanDefinition(name)) {
        throw new IllegalStateException(
            EcmSettings.MODE
                + ": \"enforce\": there is no bean "
                + name
                + " of Linkis to replace: want a Linkis that was tried, and no other extension that"
                + " replaces it");
      }
      registry.removeBeanDefinition(name);
      registry.registerBeanDefinition(name, new RootBeanDefinition(type, supplier));
    }

    @Override
    public void postProcessBeanFactory(ConfigurableListableBeanFactory beans) {
      // definitions are all that is changed
    }
  }
}
